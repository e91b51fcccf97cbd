/** Files that only compilers, type checkers and test runners need. */
const FOLDERS = /(^|\/)(tests?|testdata|include|f2py|distutils)\//;
const FILES = /\.(pyi|pxd|pyx|a|c|h|cc|f90)$|(^|\/)py\.typed$/;
/** NumPy's compiled test modules, except `_multiarray_tests`, which NumPy 2.0 imports when it starts. */
const NUMPY_TESTS = /(^|\/)numpy\/_core\/_(simd|(operand_flag|rational|struct_ufunc|umath)_tests)\./;
/** Libraries that Pillow does not need for PNG, JPEG, GIF and BMP. TensorBoard uses Pillow only to detect the format of an image. */
const PILLOW_FORMATS = /(^|\/)PIL\/_(avif|webp|imagingft|imagingcms|imagingtk)\./;
const PILLOW_LIBRARIES = /(^|\/)pillow\.libs\/lib(avif|brotli\w+|freetype|harfbuzz|lcms2|png16|sharpyuv|webp\w*)-/;
/**
 * MarkupSafe's compiled module. Without it, MarkupSafe falls back to pure Python code, which works with all Python versions and on all
 * machines.
 */
const SPEEDUPS = /(^|\/)markupsafe\/_speedups\./;
const INSTALLER = /\.dist-info\/(RECORD|WHEEL|top_level\.txt|INSTALLER|sboms\/.*)$/;

/**
 * Returns true if the file is a licence, or if TensorBoard needs the file at run time.
 * @param file path within the wheel
 */
export function isNeededByTensorBoard(file: string): boolean {
  if (/\.dist-info\//.test(file)) {
    return !INSTALLER.test(file);
  }
  return ![FOLDERS, FILES, NUMPY_TESTS, PILLOW_FORMATS, PILLOW_LIBRARIES, SPEEDUPS].some((pattern) => pattern.test(file));
}
