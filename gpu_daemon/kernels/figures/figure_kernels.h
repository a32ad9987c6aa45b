// Every workload of EDGE's figures, one line each. The usual background, MM, is
// matmul.cuh.
#ifndef CARILLON_GPU_DAEMON_KERNELS_FIGURES_FIGURE_KERNELS_H_
#define CARILLON_GPU_DAEMON_KERNELS_FIGURES_FIGURE_KERNELS_H_

#include "gpu_daemon/kernels/figures/fig_bfs.cuh"
#include "gpu_daemon/kernels/figures/fig_bp.cuh"
#include "gpu_daemon/kernels/figures/fig_conv1.cuh"
#include "gpu_daemon/kernels/figures/fig_conv2.cuh"
#include "gpu_daemon/kernels/figures/fig_hotsp.cuh"
#include "gpu_daemon/kernels/figures/fig_hrtwl.cuh"
#include "gpu_daemon/kernels/figures/fig_ipsec.cuh"
#include "gpu_daemon/kernels/figures/fig_ipv4.cuh"
#include "gpu_daemon/kernels/figures/fig_ipv6.cuh"
#include "gpu_daemon/kernels/figures/fig_kmn.cuh"
#include "gpu_daemon/kernels/figures/fig_lud.cuh"
#include "gpu_daemon/kernels/figures/fig_memc.cuh"
#include "gpu_daemon/kernels/figures/fig_sc.cuh"
#include "gpu_daemon/kernels/figures/fig_srad.cuh"

#endif  // CARILLON_GPU_DAEMON_KERNELS_FIGURES_FIGURE_KERNELS_H_
