import { isRecord } from '../../util/json.ts';
import type { Tool } from '../tool.ts';
import { checkOf } from './schema-check.ts';

/** Objects and lists within each other. */
const mostNested = 100;

export type Arguments = Readonly<Record<string, unknown>>;

/** What a model wrote as arguments, as a value; text where it is no JSON. */
export function readArguments(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return isDeep(value) ? text : value;
  } catch {
    return text;
  }
}

/** What is wrong with them, told to the model; undefined where they fit. */
export function argumentFaults({ name, inputSchema }: Tool, value: unknown): string | undefined {
  if (typeof value === 'string')
    return `The arguments of ${name} must be one JSON object; what came is no JSON.`;
  if (!isRecord(value)) return `The arguments of ${name} must be a JSON object.`;
  const wrong = checkOf(inputSchema)(value);
  if (wrong.length === 0) return undefined;
  return [`The arguments of ${name} do not fit; nothing was done:`, ...wrong.map((one) => `- ${one}`)].join(
    '\n',
  );
}

/** Without recursion: what is deep would break whoever walks it. */
function isDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > mostNested) return true;
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []));
  }
  return false;
}
