/**
 * Removes all occurrences of a character at the end of a text, in linear time. A regular expression such as `/\/+$/` takes quadratic time for
 * texts that contain many of these characters elsewhere.
 */
export function withoutEnd(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) {
    end -= 1;
  }
  return text.slice(0, end);
}
