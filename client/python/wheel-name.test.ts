import { expect, test } from 'vitest';
import { compareGlibc, glibcOf, parseWheelName } from './wheel-name.ts';

test.each([
  ['idna-3.20-py3-none-any.whl', 'idna', '3.20', null],
  ['numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl', 'numpy', '2.4.6', '2.27'],
  ['Scikit_Learn-1.9.1-2-cp311-cp311-manylinux2014_aarch64.whl', 'scikit-learn', '1.9.1', '2.17'],
  ['grpcio-1.0-cp39-cp39-manylinux_2_5_i686.manylinux1_i686.whl', 'grpcio', '1.0', '2.5'],
  ['own-1.0-cp311-cp311-linux_x86_64.whl', 'own', '1.0', null],
])('%s', (file, name, version, glibc) => {
  expect(parseWheelName(file)).toEqual({ name, version, glibc });
});

test('rejects a file that pip would have to build', () => {
  expect(() => parseWheelName('own-1.0.tar.gz')).toThrow('own-1.0.tar.gz is not a wheel');
});

test('versions of glibc are compared as numbers, and null is the oldest', () => {
  expect(['2.28', '2.5', null, '2.17'].sort(compareGlibc)).toEqual([null, '2.5', '2.17', '2.28']);
  expect(glibcOf('manylinux2014_x86_64')).toBe('2.17');
  expect(glibcOf('macosx_11_0_arm64')).toBeNull();
});
