// Every workload of EDGE's figures and of PEP's evaluation that is not in
// all_kernels.h, one line each.
#ifndef CARILLON_KERNELS_PAPER_FIGURE_KERNELS_H_
#define CARILLON_KERNELS_PAPER_FIGURE_KERNELS_H_

#include "kernels/paper/fig_bfs.cuh"
#include "kernels/paper/fig_bp.cuh"
#include "kernels/paper/fig_conv1.cuh"
#include "kernels/paper/fig_conv2.cuh"
#include "kernels/paper/fig_hotsp.cuh"
#include "kernels/paper/fig_hrtwl.cuh"
#include "kernels/paper/fig_ipsec.cuh"
#include "kernels/paper/fig_ipv4.cuh"
#include "kernels/paper/fig_ipv6.cuh"
#include "kernels/paper/fig_kmn.cuh"
#include "kernels/paper/fig_lud.cuh"
#include "kernels/paper/fig_memc.cuh"
#include "kernels/paper/fig_sc.cuh"
#include "kernels/paper/fig_srad.cuh"
#include "kernels/paper/fig_srad_v1.cuh"

#endif  // CARILLON_KERNELS_PAPER_FIGURE_KERNELS_H_
