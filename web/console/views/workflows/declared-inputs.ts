import { parse } from 'smol-toml';
import { type Declared, inputsOf } from '../../agents/declared.ts';

interface Read {
  readonly inputs: readonly Declared[];
  /** Kind of the entry gate. */
  readonly entry: string | undefined;
  /** A step reads `input`, the text of the request. */
  readonly usesInput: boolean;
}

/** Declared inputs and entry of a workflow; undefined when the TOML cannot be parsed, which lint reports. */
export function declaredIn(source: string): Read | undefined {
  try {
    const { inputs, entry, steps } = parse(source);
    const kind = memberOf(entry, 'kind');
    return {
      inputs: inputsOf(inputs),
      entry: typeof kind === 'string' ? kind : undefined,
      usesInput: Array.isArray(steps) && steps.some(readsInput),
    };
  } catch {
    return undefined;
  }
}

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;

function readsInput(step: unknown): boolean {
  const gate = memberOf(step, 'gate');
  const templates = [memberOf(step, 'prompt'), memberOf(gate, 'message')];
  const conditions = [memberOf(step, 'when'), memberOf(gate, 'expr'), memberOf(gate, 'where')];
  const fits = (texts: readonly unknown[], form: RegExp) =>
    texts.some((text) => typeof text === 'string' && form.test(text));
  return fits(templates, /\{\{\s*input\s*\}\}/) || fits(conditions, /(?<![.\w"'])input(?![\w"'])/);
}
