# DPDK is optional: ryle.receive._dpdk is built where pkg-config finds libdpdk. RYLE_DPDK_STATIC links DPDK and the few
# virtual devices into the module, for machines without DPDK.
option(RYLE_DPDK "build ryle.receive._dpdk if DPDK is found" ON)
option(RYLE_DPDK_STATIC "link DPDK and its virtual devices into ryle.receive._dpdk" OFF)
find_package(PkgConfig QUIET)
if(RYLE_DPDK AND PkgConfig_FOUND)
  pkg_check_modules(DPDK QUIET libdpdk>=22.11)
endif()
if(RYLE_DPDK AND DPDK_FOUND)
  message(STATUS "DPDK ${DPDK_VERSION} found: building ryle.receive._dpdk")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
  nanobind_add_module(dpdk_native NB_STATIC NOMINSIZE ${sources})
  set_target_properties(dpdk_native PROPERTIES OUTPUT_NAME _dpdk)
  set_target_properties(dpdk_native PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/receive)
  target_include_directories(dpdk_native PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/native)
  target_include_directories(dpdk_native SYSTEM PRIVATE ${DPDK_INCLUDE_DIRS})
  target_compile_options(dpdk_native PRIVATE -Wall -Wextra ${DPDK_CFLAGS_OTHER})
  # Pools of external buffers and DMA mappings are "experimental" in 22.11 and unchanged since.
  target_compile_definitions(dpdk_native PRIVATE ALLOW_EXPERIMENTAL_API)
  if(RYLE_DPDK_STATIC)
    set(archives)
    foreach(part kvargs telemetry eal ring rcu mempool mempool_ring mbuf net meter ethdev pci bus_pci bus_vdev hash
                 net_null net_ring net_memif)
      list(APPEND archives ${DPDK_LIBDIR}/librte_${part}.a)
    endforeach()
    target_link_libraries(dpdk_native PRIVATE -Wl,--whole-archive ${archives} -Wl,--no-whole-archive
                          -static-libstdc++ -static-libgcc numa bsd m dl
                          -Wl,--disable-new-dtags)  # libnuma, libbsd and libmd may lie beside the module
    set_target_properties(dpdk_native PROPERTIES BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
  else()
    target_link_libraries(dpdk_native PRIVATE ${DPDK_LDFLAGS})
  endif()
  target_link_libraries(dpdk_native PRIVATE Threads::Threads)
  install(TARGETS dpdk_native LIBRARY DESTINATION ryle/receive)
else()
  message(STATUS "DPDK 22.11 or later not found (Debian: apt install dpdk-dev): ryle is built without ryle.receive._dpdk")
endif()
