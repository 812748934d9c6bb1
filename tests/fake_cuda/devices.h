// What the stand-in reports of its GPUs.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace fake_cuda {

CUresult device_get_count(int* count);
CUresult device_get(CUdevice* device, int ordinal);
CUresult device_get_name(char* name, int size, CUdevice device);
CUresult device_get_attribute(int* value, CUdevice_attribute which, CUdevice);
CUresult device_total_mem(std::size_t* bytes, CUdevice);
CUresult device_get_pci_bus_id(char* text, int size, CUdevice device);
CUresult device_get_uuid(CUuuid* uuid, CUdevice device);

}  // namespace fake_cuda
