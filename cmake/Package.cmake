# Three Debian packages: moetune, the tool with its units, scripts, manifests and pages; libmoetune-runtime1, what a
# server links, and the packs; libmoetune-dev, what it is built with.
#   ./scripts/build portable installable && (cd build/portable && cpack)
set(CPACK_PACKAGE_CONTACT "The moetune authors <maintainers@moetune.invalid>")
set(tool_files COMPONENT tool EXCLUDE_FROM_ALL)
install(PROGRAMS packaging/fleet/tune_shard packaging/fleet/merge_shards DESTINATION lib/moetune ${tool_files})
install(FILES packaging/systemd/moetune-retune.service packaging/systemd/moetune-retune.timer
  packaging/systemd/moetune-serve.service
  DESTINATION lib/systemd/system ${tool_files})
install(DIRECTORY DESTINATION /etc/moetune ${tool_files})
install(FILES packaging/systemd/moetune.sysusers DESTINATION lib/sysusers.d RENAME moetune.conf ${tool_files})
install(PROGRAMS packaging/slurm/retune.sbatch packaging/slurm/merge.sbatch DESTINATION share/moetune/slurm
  ${tool_files})
install(DIRECTORY packaging/kubernetes DESTINATION share/moetune ${tool_files} FILES_MATCHING PATTERN *.yaml)
install(FILES workloads/workloads.schema.json DESTINATION share/moetune ${tool_files})
# The pages as they lie in the project, with what they link to.
set(pages share/doc/moetune)
install(FILES README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md DESTINATION ${pages} ${tool_files})
install(DIRECTORY docs examples DESTINATION ${pages} ${tool_files} PATTERN __pycache__ EXCLUDE)
install(FILES workloads/workloads.schema.json DESTINATION ${pages}/workloads ${tool_files})
install(FILES include/moetune.h DESTINATION ${pages}/include ${tool_files})
file(WRITE ${PROJECT_BINARY_DIR}/debian/changelog
"moetune (${PROJECT_VERSION}) unstable; urgency=low

  * What is new is in CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  Thu, 01 Jan 1970 00:00:00 +0000
")
execute_process(COMMAND gzip -9nf ${PROJECT_BINARY_DIR}/debian/changelog COMMAND_ERROR_IS_FATAL ANY)
foreach(pair tool=moetune runtime=libmoetune-runtime1 development=libmoetune-dev)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES LICENSE DESTINATION share/doc/${package} RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${PROJECT_BINARY_DIR}/debian/changelog.gz DESTINATION share/doc/${package} COMPONENT ${component}
    EXCLUDE_FROM_ALL)
endforeach()
# What the Dockerfile takes beside the program.
file(COPY packaging/fleet/tune_shard packaging/fleet/merge_shards packaging/docker/healthy
  DESTINATION ${PROJECT_BINARY_DIR}/fleet)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME moetune)
set(CPACK_PACKAGE_VENDOR moetune)
set(CPACK_PACKAGE_HOMEPAGE_URL ${PROJECT_HOMEPAGE_URL})
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE ${PROJECT_HOMEPAGE_URL})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL tool runtime development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)

# By dpkg-shlibdeps, from what the program links. CUDA is opened at run time: a machine without it can read and merge.
set(CPACK_DEBIAN_TOOL_PACKAGE_NAME moetune)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_TOOL_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOL_PACKAGE_RECOMMENDS "libmoetune-runtime1")
set(CPACK_DEBIAN_TOOL_PACKAGE_SUGGESTS "libcuda1, libnvrtc12")
set(CPACK_COMPONENT_TOOL_DESCRIPTION "JIT kernel autotuner for mixture-of-experts inference on NVIDIA GPUs
 Searches, verifies and stores tuned kernels, and retunes them every night.")
set(CPACK_DEBIAN_TOOL_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/postinst
  ${PROJECT_SOURCE_DIR}/packaging/debian/prerm ${PROJECT_SOURCE_DIR}/packaging/debian/postrm)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libmoetune-runtime1)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "libcuda1")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "tuned CUDA kernels inside an inference server: library and packs
 Opens caches and packs of moetune, and launches the tuned variants in them.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmoetune-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libmoetune-runtime1 (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "tuned CUDA kernels inside an inference server: headers
 Headers, static library, and what CMake and pkg-config find them by.")
include(CPack)
