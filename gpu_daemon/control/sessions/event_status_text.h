// Says a completion's status in words.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_EVENT_STATUS_TEXT_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_EVENT_STATUS_TEXT_H_

#include <cstdint>
#include <string>

namespace carillon::gpud {

// Puts a completion's status (shm::EventStatus, or a kernel's own code) into
// words for people.
std::string EventStatusText(uint32_t status);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_EVENT_STATUS_TEXT_H_
