import { RE2JS, RE2JSException } from 're2js';
import { Refusal } from './refusal.ts';

/** Maximum states of a compiled expression, so that a line takes at most some tens of milliseconds. */
const maxStates = 2000;

/**
 * Returns a function that searches a text for a match, in linear time for any expression, without backtracking.
 * @throws Refusal
 */
export function compileExpression(pattern: string, ignoreCase: boolean): (text: string) => boolean {
  try {
    const compiled = RE2JS.compile(pattern, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
    if (compiled.programSize() > maxStates)
      throw new Refusal('query: this expression repeats too much; use smaller counts.');
    return (text) => compiled.matcher(text).find();
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    const message = `query: no regular expression that can be searched for: ${error.message}. There is no lookaround and there are no back references.`;
    throw new Refusal(message, { cause: error });
  }
}

/**
 * Returns a matcher for relative paths: `*` and `?` match within a name, `**` across folders; a glob without `/`
 * matches names.
 */
export function compilePathGlob(glob: string): (path: string) => boolean {
  const pattern = glob
    .split(/(\*\*\/|\*\*|\*|\?)/)
    .map((part) => wildcards[part] ?? RE2JS.quote(part))
    .join('');
  const compiled = RE2JS.compile(`^${glob.includes('/') ? '' : '(?:.*/)?'}(?:${pattern})$`, RE2JS.DOTALL);
  return (path) => compiled.matcher(path).find();
}

const wildcards: Readonly<Record<string, string>> = {
  '**/': '(?:.*/)?',
  '**': '.*',
  '*': '[^/]*',
  '?': '[^/]',
};
