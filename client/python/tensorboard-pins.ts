import type { Architecture, Wheel } from '../runtime/pins.ts';

/*
 * Exact versions of TensorBoard and its dependencies; see pins.ts. The `packages` folder contains packages with the same version for all
 * supported Python versions; the names of their compiled files contain the Python version. The other folders contain packages whose version
 * depends on the Python version. setuptools and tensorboard-data-server are omitted, because TensorBoard does not import them in this
 * configuration.
 */

export const TENSORBOARD_VERSION = '2.21.0';

export interface PinnedWheel extends Wheel {
  /** Python version for which the wheel is downloaded. */
  readonly python: string;
  readonly folder: Folder;
}

export type Folder = 'packages' | 'python-3.9' | 'python-3.10';

/** Folders from which each Python version imports packages, in order. */
export const PYTHON_FOLDERS: Readonly<Record<string, readonly Folder[]>> = {
  '3.9': ['packages', 'python-3.9'],
  '3.10': ['packages', 'python-3.10'],
  '3.11': ['packages', 'python-3.10'],
  '3.12': ['packages', 'python-3.10'],
  '3.13': ['packages', 'python-3.10'],
};

/** Creates the entry for a pure Python package. All architectures and all newer Python versions use the same wheel. */
function pure(name: string, version: string, folder: Folder, sha256: string): PinnedWheel {
  return { name, version, python: '3.9', folder, sha256 };
}

const PURE: readonly PinnedWheel[] = [
  pure('absl-py', '2.3.1', 'packages', 'eeecf07f0c2a93ace0772c92e596ace6d3d3996c042b2128459aaae2a76de11d'),
  pure('markdown', '3.9', 'packages', '9f4d91ed810864ea88a6f32c07ba8bee1346c0cc1f6b1f9f6c822f2a9667d280'),
  pure('packaging', '26.3', 'packages', 'd7193f7c8e4e93f444fde0262bf90af30e16fa0ad0ad44cb553c87339b23cd1c'),
  pure('tensorboard', '2.21.0', 'packages', '7279316dcb6bd5bc391d623dea841531299cde1887310e8133bc34a996d32255'),
  pure('typing-extensions', '4.16.0', 'packages', '481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8'),
  pure('werkzeug', '3.1.9', 'packages', '6392e50c78460ba618e5b21f08a71f59c99ce99cdc6cf6e3dd7e6ccca8754fab'),
  pure('importlib-metadata', '8.7.1', 'python-3.9', '5a1f80bf1daa489495071efbb095d75a634cf28a8bc299581244063b53176151'),
  pure('zipp', '3.23.1', 'python-3.9', '0b3596c50a5c700c9cb40ba8d86d9f2cc4807e9bedb06bcdf7fac85633e444dc'),
];

interface Compiled {
  readonly name: string;
  readonly version: string;
  readonly folder: Folder;
  /** Checksums of the wheels for x64 and arm64, keyed by Python version. */
  readonly wheels: Readonly<Record<string, readonly [x64: string, arm64: string]>>;
}

const COMPILED: readonly Compiled[] = [
  {
    name: 'grpcio',
    version: '1.80.1',
    folder: 'packages',
    wheels: {
      '3.10': [
        'f0d70bdf3b7ffa1fda1d2921d0fc41e11a9be65bc9f1f21847a24d681520a050',
        'c3a821ff47041944a019fd18982903615cf4a463ed8cdaa72b2105e5245e734c',
      ],
      '3.11': [
        'a6ea3abddd86c4a4ecb266bcabd276d5f7aa829b410000a959d7e78cc549021d',
        '0a98682915a373bafa77c22305abd778009ef2e471819f6c7d50b6dc7aba8e79',
      ],
      '3.12': [
        '42ce71d3a516465620fc5662c5a628f3f444141a75c303287fa329604cd4bec3',
        '1cdf651bf9ef74162176d3bb49fd0f232b9e0979bc40255ff0b4a4cf13c552f0',
      ],
      '3.13': [
        '9b609f6e5b97b539992d149c3c144c27088f70aa37d6aefffbb45def9b5af93e',
        '9f4ecbc1c9673560cd63b750979520a66a9c506f331230a1d78e28fc02a3e948',
      ],
      '3.9': [
        'c87817d7280b2a648ac817fa7869ce677ce8a7928edf0c2ee60db8c1518fc908',
        '6449455419dac386bfcbe4bd63d817da31b7615a69926cfd46574737cd103b85',
      ],
    },
  },
  {
    name: 'markupsafe',
    version: '3.0.4',
    folder: 'packages',
    wheels: {
      '3.9': [
        '5e8b3d0b18fd623afa12ecb2ce8d8becef69f9b5440c6330c7972200e0bb84b0',
        '6768d67d1bce64270e0fdc2e69309d68b9b18ae56ddf6c711d168e9d051c2cac',
      ],
    },
  },
  {
    name: 'numpy',
    version: '2.0.2',
    folder: 'python-3.9',
    wheels: {
      '3.9': [
        'f26b258c385842546006213344c50655ff1555a9338e2e5e02a0756dc3e803dd',
        '1e795a8be3ddbac43274f18588329c72939870a16cae810c2b73461c40718ab1',
      ],
    },
  },
  {
    name: 'numpy',
    version: '2.2.6',
    folder: 'python-3.10',
    wheels: {
      '3.10': [
        'fc7b73d02efb0e18c000e9ad8b83480dfcd5dfd11065997ed4c6747470ae8915',
        'efd28d4e9cd7d7a8d39074a4d44c63eda73401580c5c76acda2ce969e0a38e83',
      ],
      '3.11': [
        'ba10f8411898fc418a521833e014a77d3ca01c15b0c6cdcce6a0d2897e6dbbdf',
        'b64d8d4d17135e00c8e346e0a738deb17e754230d7e0810ac5012750bbd85a5a',
      ],
      '3.12': [
        'fd83c01228a688733f1ded5201c678f0c53ecc1006ffbc404db9f7a899ac6249',
        'f2618db89be1b4e05f7a1a847a9c1c0abd63e63a1607d892dd54668dd92faf87',
      ],
      '3.13': [
        '1bc23a79bfabc5d056d106f9befb8d50c31ced2fbc70eedb8155aec74a45798f',
        'f92729c95468a2f4f15e9bb94c432a9229d0d50de67304399627a943201baa2f',
      ],
    },
  },
  {
    name: 'pillow',
    version: '12.3.0',
    folder: 'python-3.10',
    wheels: {
      '3.10': [
        'f0606c8bf2cdefea14a43530f7657cbbb7ecf1c4222512492ef4a4434a9501ec',
        '5594fc43d548a7ed94949d139aa1341b270f1863f11cfd37f5a6c8b778a6b67f',
      ],
      '3.11': [
        '23d27a3e0307ec2244cc51e7287b919aa68d097504ebe19df4e76a98a3eea5bd',
        'bcb46e2f9feff8d06323983bd83ed00c201fdcab3d74973e7072a889b3979fcd',
      ],
      '3.12': [
        '78cb2c6865a35ab8ff8b75fd122f6033b92a62c82801110e48ddd6c936a45d91',
        'd9c7f76c0673154f044e9d78c8655fb4213f6ca31a836df48b40fe5d187717b9',
      ],
      '3.13': [
        '0847a763afefb695bc912d7c131e7e0632d4edc1d8698f58ddabec8e46b8b6d3',
        'f7401aebd7f581d7f83a439d87d474999317ee099218e5ad25d125290990ba65',
      ],
    },
  },
  {
    name: 'pillow',
    version: '11.3.0',
    folder: 'python-3.9',
    wheels: {
      '3.9': [
        '6359a3bc43f57d5b375d1ad54a0074318a0844d11b76abccf478c37c986d3cfc',
        '23cff760a9049c502721bdb743a7cb3e03365fafcdfc2ef9784610714166e5a4',
      ],
    },
  },
  {
    name: 'protobuf',
    version: '6.33.6',
    folder: 'packages',
    wheels: {
      '3.9': [
        'e9db7e292e0ab79dd108d7f1a94fe31601ce1ee3f7b79e0692043423020b0593',
        'e2afbae9b8e1825e3529f88d514754e094278bb95eadc0e199751cdd9a2e82a2',
      ],
    },
  },
];

export function tensorBoardWheels(architecture: Architecture): readonly PinnedWheel[] {
  const compiled = COMPILED.flatMap(({ name, version, folder, wheels }) =>
    Object.entries(wheels).map(([python, [x64, arm64]]) => {
      return { name, version, python, folder, sha256: architecture === 'x64' ? x64 : arm64 };
    }),
  );
  return [...PURE, ...compiled];
}
