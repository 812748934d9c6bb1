// What the driver checks of a launch and of a tensor map before it takes them.
#pragma once

#include <cuda.h>

#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {

CUresult func_get_attribute(int* value, CUfunction_attribute which, CUfunction function);
CUresult func_set_attribute(CUfunction function, CUfunction_attribute which, int value);
// Success for a launch of a sound shape that asks for no more than its function was permitted.
CUresult check_shape(const CUlaunchConfig& config, const Kernel& kernel);
// The value of a launch's attribute; zeros if it has none of that kind.
CUlaunchAttributeValue attribute_of(const CUlaunchConfig& config, CUlaunchAttributeID which);

CUresult tensor_map_encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                           const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);
int count_encodings();  // for tests

}  // namespace fake_cuda
