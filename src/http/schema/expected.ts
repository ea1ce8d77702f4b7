/** Length of the part of a value that an error repeats. */
const maxShown = 60;

/**
 * The error of a schema that says what was expected and repeats what came. For bodies without secrets only.
 * @param what completes the sentence `expected ...`
 */
export const expected =
  (what: string) =>
  ({ input }: { readonly input?: unknown }): string =>
    input === undefined ? `expected ${what}` : `expected ${what}, got ${shown(input)}`;

function shown(value: unknown): string {
  // JSON has no functions and symbols, and neither have bodies.
  const text = JSON.stringify(value) ?? typeof value;
  return text.length > maxShown ? `${text.slice(0, maxShown).toWellFormed()}...` : text;
}
