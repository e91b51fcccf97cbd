import { describe, expect, it } from 'vitest';
import { isNeededByTensorBoard } from './ensure-tensorboard.ts';

describe('isNeededByTensorBoard', () => {
  it.each([
    'tensorboard/webfiles.zip',
    'tensorboard/plugins/projector/tf_projector_plugin/projector_binary.js',
    'tensorboard-2.21.0.dist-info/entry_points.txt',
    'tensorboard-2.21.0.dist-info/licenses/LICENSE',
    'numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so',
    'numpy/_core/_multiarray_tests.cpython-39-x86_64-linux-gnu.so',
    'numpy/testing/__init__.py',
    'numpy.libs/libscipy_openblas64_-56d6093b.so',
    'PIL/_imaging.cpython-311-x86_64-linux-gnu.so',
    'PIL/WebPImagePlugin.py',
    'pillow.libs/libtiff-0709261b.so.6.1.0',
    'markupsafe/_native.py',
    'google/_upb/_message.abi3.so',
  ])('keeps %s', (file) => expect(isNeededByTensorBoard(file)).toBe(true));

  it.each([
    'numpy/tests/test_lazyloading.py',
    'numpy/_core/_simd.cpython-311-x86_64-linux-gnu.so',
    'numpy/_core/_umath_tests.cpython-311-x86_64-linux-gnu.so',
    'numpy/_core/include/numpy/arrayobject.h',
    'numpy/_core/lib/libnpymath.a',
    'numpy/f2py/f2py2e.py',
    'numpy/__init__.pyi',
    'PIL/_webp.cpython-311-x86_64-linux-gnu.so',
    'PIL/_imagingft.cpython-311-x86_64-linux-gnu.so',
    'pillow.libs/libavif-4aef22a8.so.16.3.0',
    'pillow.libs/libwebpmux-4372eeb8.so.3.1.1',
    'markupsafe/_speedups.cpython-39-x86_64-linux-gnu.so',
    'numpy-2.2.6.dist-info/RECORD',
  ])('drops %s', (file) => expect(isNeededByTensorBoard(file)).toBe(false));
});
