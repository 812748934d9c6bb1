# A Debian package of the tool: `cmake --build --preset portable --target moetune && cd build/portable && cpack`.
# What a server links stays out of it: it is installed from the tree (docs/runtime.md).
set(tool_files COMPONENT tool EXCLUDE_FROM_ALL)
install(PROGRAMS packaging/fleet/tune_shard packaging/fleet/merge_shards DESTINATION lib/moetune ${tool_files})
install(FILES packaging/systemd/moetune-retune.service packaging/systemd/moetune-retune.timer
  packaging/systemd/moetune-serve.service
  DESTINATION lib/systemd/system ${tool_files})
install(FILES packaging/systemd/moetune.sysusers DESTINATION lib/sysusers.d RENAME moetune.conf ${tool_files})
install(PROGRAMS packaging/slurm/retune.sbatch packaging/slurm/merge.sbatch DESTINATION share/moetune/slurm ${tool_files})
install(DIRECTORY packaging/kubernetes DESTINATION share/moetune ${tool_files} FILES_MATCHING PATTERN *.yaml)
install(FILES workloads/workloads.schema.json DESTINATION share/moetune ${tool_files})
install(FILES LICENSE DESTINATION share/doc/moetune RENAME copyright ${tool_files})
install(FILES README.md docs/cache.md docs/contention.md docs/fleet.md docs/ranges.md docs/report.md docs/retune.md
  docs/service.md docs/sync.md docs/workloads.md DESTINATION share/doc/moetune ${tool_files} OPTIONAL)
# What the Dockerfile takes beside the program.
file(COPY packaging/fleet/tune_shard packaging/fleet/merge_shards DESTINATION ${PROJECT_BINARY_DIR}/fleet)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME moetune)
set(CPACK_PACKAGE_VENDOR moetune)
set(CPACK_PACKAGE_CONTACT "moetune maintainers <moetune@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "JIT kernel autotuner for mixture-of-experts inference on NVIDIA GPUs")
set(CPACK_PACKAGE_DESCRIPTION "Searches, verifies and stores tuned kernels, and retunes them every night.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL tool)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# By dpkg-shlibdeps, from what the program links. CUDA is opened at run time: a machine without it can read and merge.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libcuda1, libnvrtc12")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/postinst)
set(CPACK_DEBIAN_TOOL_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/postinst)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
include(CPack)
