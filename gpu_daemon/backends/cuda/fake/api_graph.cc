// The functions of the driver for graphs.
#include <algorithm>
#include <array>
#include <memory>

#include "gpu_daemon/backends/cuda/fake/fake_call.h"

namespace carillon::gpud::cuda {
namespace {

CUresult MakeNode(State& state, const CUDA_KERNEL_NODE_PARAMS& params,
                  LaunchSpec& launch) {
  // An H200 (driver 580.159.04): a node that names its function belongs to the
  // context that is current, a green one, too. `ctx` counts for a CUkernel only.
  const FunctionPtr function = Find(state, state.functions, params.func);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function->form == Function::Form::kNone) return CUDA_ERROR_NOT_SUPPORTED;
  const std::array grid = {params.gridDimX, params.gridDimY, params.gridDimZ};
  const std::array block = {params.blockDimX, params.blockDimY,
                            params.blockDimZ};
  launch.place.sms = state.contexts.at(current_context).sms;
  return state.MakeLaunch(function, grid.data(), block.data(),
                          params.sharedMemBytes, params.kernelParams,
                          params.extra, launch);
}

// Device launches find it on the GPU once the stream has come here.
CUresult Upload(State& state, const RootPtr& root, const ExecPtr& exec,
                CUstream handle) {
  const StreamPtr stream = FindStream(state, root, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  state.PushLate(*stream, [&state, exec] {
    std::lock_guard lock(state.mutex);
    exec->uploaded = true;
  });
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace carillon::gpud::cuda

using namespace carillon::gpud::cuda;  // NOLINT: all below are C functions

extern "C" {

CUresult CUDAAPI cuGraphCreate(CUgraph* graph, unsigned) {
  // Graphs belong to no context.
  return Call(__func__, [&](State& state, Lock&) {
    const uint64_t handle = State::NewHandle();
    state.graphs[handle] = std::make_shared<Graph>();
    *graph = As<CUgraph>(handle);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle) {
  return Call(__func__, [&](State& state, Lock&) {
    std::erase_if(state.node_graphs, [&](const auto& entry) {
      return entry.second == Number(handle);
    });
    return Erase(state, state.graphs, handle);
  });
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes,
                                 size_t* count) {
  return Call(__func__, [&](State& state, Lock&) {
    const std::shared_ptr<Graph> graph = Find(state, state.graphs, handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i) {
      // In no order that a caller may rely on.
      nodes[i] =
          As<CUgraphNode>(graph->nodes[graph->nodes.size() - 1 - i].handle);
    }
    *count = graph->nodes.size();
    return CUDA_SUCCESS;
  });
}

// Here each node depends on the one before it.
CUresult CUDAAPI cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes,
                                     size_t* count) {
  return Call(__func__, [&](State& state, Lock&) {
    const std::shared_ptr<Graph> graph = Find(state, state.graphs, handle);
    if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (*count != 0 && !graph->nodes.empty()) {
      nodes[0] = As<CUgraphNode>(graph->nodes.front().handle);
    }
    *count = graph->nodes.empty() ? 0 : 1;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* node, CUgraph handle,
                                      const CUgraphNode* dependencies,
                                      size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS* params) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr&) -> CUresult {
        const std::shared_ptr<Graph> graph = Find(state, state.graphs, handle);
        if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        for (size_t i = 0; i < count; ++i) {
          const auto other = state.node_graphs.find(Number(dependencies[i]));
          if (other == state.node_graphs.end() ||
              other->second != Number(handle)) {
            return CUDA_ERROR_INVALID_VALUE;
          }
        }
        GraphNode made;
        const CUresult result = MakeNode(state, *params, made.launch);
        if (result != CUDA_SUCCESS) return result;
        made.handle = State::NewHandle();
        state.node_graphs[made.handle] = Number(handle);
        *node = As<CUgraphNode>(made.handle);
        graph->nodes.push_back(std::move(made));
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI
cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                              const CUkernelNodeAttrValue* value) {
  return Call(__func__, [&](State& state, Lock&) {
    const auto graph = state.node_graphs.find(Number(node));
    if (value == nullptr || graph == state.node_graphs.end()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Place& place = std::ranges::find(state.graphs.at(graph->second)->nodes,
                                     Number(node), &GraphNode::handle)
                       ->launch.place;
    // They change nothing that a kernel here would see.
    switch (attribute) {
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        place.priority = value->priority;
        return CUDA_SUCCESS;
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        place.memory_domain = value->memSyncDomain;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  });
}

CUresult CUDAAPI cuGraphInstantiateWithParams(
    CUgraphExec* exec, CUgraph handle, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
        const std::shared_ptr<Graph> graph = Find(state, state.graphs, handle);
        if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        auto made = std::make_shared<Exec>();
        for (const GraphNode& node : graph->nodes) {
          const CUresult taken =
              state.TakeStack(lock, *root, node.launch.function->local_bytes);
          if (taken != CUDA_SUCCESS) return taken;
        }
        made->root = root;
        made->nodes = graph->nodes;
        made->device_launch =
            (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
        made->node_priorities =
            (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) !=
            0;
        if (made->device_launch && !state.settings.device_graphs) {
          return CUDA_ERROR_NOT_SUPPORTED;
        }
        if (made->device_launch && made->nodes.empty()) {
          params->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
          return CUDA_ERROR_INVALID_VALUE;
        }
        if (state.settings.graph_exec_bytes != 0) {
          const CUresult result =
              state.Allocate(root, state.settings.graph_exec_bytes,
                             MemoryRange::Kind::kDevice, made->memory);
          if (result != CUDA_SUCCESS) return result;
        }
        made->handle = State::NewHandle();
        if ((params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
          const CUresult result =
              Upload(state, root, made, params->hUploadStream);
          if (result != CUDA_SUCCESS) return result;
        }
        *exec = As<CUgraphExec>(made->handle);
        state.execs[made->handle] = std::move(made);
        params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI
cuGraphExecKernelNodeSetParams(CUgraphExec handle, CUgraphNode node,
                               const CUDA_KERNEL_NODE_PARAMS* params) {
  return InContext(
      __func__, [&](State& state, Lock&, const RootPtr&) -> CUresult {
        const ExecPtr exec = Find(state, state.execs, handle);
        if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        const auto found =
            std::ranges::find(exec->nodes, Number(node), &GraphNode::handle);
        if (found == exec->nodes.end()) return CUDA_ERROR_INVALID_VALUE;
        LaunchSpec launch;
        const CUresult result = MakeNode(state, *params, launch);
        if (result != CUDA_SUCCESS) return result;
        // A node stays in its context.
        if (launch.place.sms != found->launch.place.sms) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        launch.place = found->launch.place;
        found->launch = std::move(launch);
        // The copy on the GPU is the old one.
        exec->uploaded = false;
        return CUDA_SUCCESS;
      });
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  return InContext(__func__, [&](State& state, Lock&, const RootPtr& root) {
    const ExecPtr exec = Find(state, state.execs, handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const StreamPtr where = FindStream(state, root, stream);
    if (where == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const int priority = where->place.priority;
    Stream* const in = where.get();
    return Enqueue(state, root, stream, [&state, exec, priority, in] {
      {
        // Never beside itself: launches by the host wait for each other.
        Lock lock(state.mutex);
        exec->uploaded = true;
        state.changed.wait(lock, [&] {
          return !exec->busy ||
                 exec->root->stopped.load(std::memory_order_relaxed);
        });
        if (exec->root->stopped.load(std::memory_order_relaxed)) return;
        exec->busy = true;
      }
      state.RunGraph(exec->root, exec, priority, in);
    });
  });
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) {
  return InContext(
      __func__, [&](State& state, Lock& lock, const RootPtr& root) -> CUresult {
        const ExecPtr exec = Find(state, state.execs, handle);
        if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        const CUresult idle = state.AwaitIdle(lock, *root);
        if (idle != CUDA_SUCCESS) return idle;
        if (exec->memory != 0) {
          const CUresult result =
              state.Free(lock, exec->memory, MemoryRange::Kind::kDevice);
          if (result != CUDA_SUCCESS) return result;
        }
        return Erase(state, state.execs, handle);
      });
}

}  // extern "C"
