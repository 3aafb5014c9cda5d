# The driver of threads, forks and refused memory, by seeds. An emulator does not survive forks of
# programs with threads, nor does a sanitizer's runtime.

if(CMAKE_CROSSCOMPILING)
  return()
endif()

add_executable(fuzz_driver
  driver/main.cc driver/play.cc driver/life.cc driver/blocks.cc
  ${PROJECT_SOURCE_DIR}/tests/support/fake_cpu.cc $<TARGET_OBJECTS:near_api>)
target_link_libraries(fuzz_driver PRIVATE near_core_fake_os near_test_flags)

set(forks)
set(seeds 1-60)
if(NEAR_SANITIZE)
  set(forks --no-forks)
  set(seeds 1-8)
elseif(NEAR_CHECK)
  set(seeds 1-30)
endif()
near_test_core(fuzz_driver COMMAND fuzz_driver --seeds ${seeds} ${forks})
near_test_core(fuzz_driver_soak LABEL soak TIMEOUT 7200
  COMMAND fuzz_driver --seed 1000 --seconds 3600 ${forks})
near_test_core(fuzz_driver_notices_faults
  COMMAND ${NEAR_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/notice_faults.py
    driver $<TARGET_FILE:fuzz_driver> ${seeds} ${forks})
