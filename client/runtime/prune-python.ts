/** What only compilers, type checkers and test runners read. */
const FOLDERS = /(^|\/)(tests?|testdata|include|f2py|distutils)\//;
const FILES = /\.(pyi|pxd|pyx|a|c|h|cc|f90)$|(^|\/)py\.typed$/;
/** Not `_multiarray_tests`, which NumPy 2.0 imports at its start. */
const NUMPY_TESTS = /(^|\/)numpy\/_core\/_(simd|(operand_flag|rational|struct_ufunc|umath)_tests)\./;
/** Pillow is asked what kind of picture bytes are: of formats that browsers show it reads PNG, JPEG, GIF and BMP by itself. */
const PILLOW_FORMATS = /(^|\/)PIL\/_(avif|webp|imagingft|imagingcms|imagingtk)\./;
const PILLOW_LIBRARIES = /(^|\/)pillow\.libs\/lib(avif|brotli\w+|freetype|harfbuzz|lcms2|png16|sharpyuv|webp\w*)-/;
/** MarkupSafe's few compiled lines are there in Python as well: one file for all. */
const SPEEDUPS = /(^|\/)markupsafe\/_speedups\./;
const INSTALLER = /\.dist-info\/(RECORD|WHEEL|top_level\.txt|INSTALLER|sboms\/.*)$/;

/** Whether TensorBoard needs a file of a wheel at run time, given its path in there. Licences stay. */
export function isNeededByTensorBoard(file: string): boolean {
  if (/\.dist-info\//.test(file)) return !INSTALLER.test(file);
  return ![FOLDERS, FILES, NUMPY_TESTS, PILLOW_FORMATS, PILLOW_LIBRARIES, SPEEDUPS].some((pattern) => pattern.test(file));
}
