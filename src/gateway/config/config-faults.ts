import type { z } from 'zod';
import type { KeyLines, KeyPath } from '../../config/toml-lines.ts';
import { formatKeyPath } from '../../config/toml-lines.ts';
import { formatValue, UsageError } from '../../config/usage.ts';
import { didYouMean } from '../../words/nearest.ts';
import { knownKeysByTable, secretMembers } from './schemas.ts';

/** A table with more keys is not listed: gateway.example.toml shows it. */
const maxListedKeys = 8;

/** Collects the faults of a file, to report all of them at once, in the order of the file. */
export class ConfigFaults {
  readonly #name: string;
  readonly #lines: KeyLines;
  readonly #entries: { readonly path: KeyPath; readonly line: number; readonly text: string }[] = [];

  constructor(name: string, lines: KeyLines) {
    this.#name = name;
    this.#lines = lines;
  }

  add(path: KeyPath, message: string): void {
    const line = this.#lines.lineOf(path);
    this.#entries.push({ path, line, text: `${this.#name}:${line}: ${formatKeyPath(path)}: ${message}` });
  }

  /** @param matters whether a fault at a path does @throws UsageError with all faults, if there is one that matters */
  throwIfAny(matters: (path: KeyPath) => boolean = () => true): void {
    if (!this.#entries.some(({ path }) => matters(path))) return;
    throw new UsageError(this.#entries.sort((a, b) => a.line - b.line).map(({ text }) => text));
  }

  /** Parses a value; if it is invalid, adds its faults and returns undefined. */
  parse<T extends z.ZodType>(schema: T, value: unknown, path: KeyPath): z.infer<T> | undefined {
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    const { issues } = result.error;
    const mistyped = new Set(issues.flatMap((one) => (one.code === 'invalid_type' ? [keyOf(one)] : [])));
    // Zod also checks the length of what is no list.
    for (const issue of issues)
      if (issue.code === 'invalid_type' || !mistyped.has(keyOf(issue))) this.#issue(issue, value, path);
    return undefined;
  }

  #issue(issue: z.core.$ZodIssue, value: unknown, path: KeyPath): void {
    // Of the members of a union, the one that matched furthest has the most useful message.
    if (issue.code === 'invalid_union') {
      const inner = issue.errors.find((branch) => branch.some(({ code }) => code !== 'invalid_type'));
      if (inner) {
        for (const one of inner) this.#issue({ ...one, path: [...issue.path, ...one.path] }, value, path);
        return;
      }
    }
    const inside = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
    const at = [...path, ...inside];
    if (issue.code === 'unrecognized_keys') {
      const known = knownKeysByTable[tableOf(at)] ?? [];
      const all =
        known.length > 0 && known.length <= maxListedKeys ? `; the keys are: ${known.join(', ')}` : '';
      for (const key of issue.keys)
        this.add(
          [...at, key],
          `unknown key${didYouMean(key.replaceAll('-', '_'), known, (near) => near) || all}`,
        );
      return;
    }
    const received = valueAt(value, inside);
    if (received === undefined) this.add(at, `is missing; ${issue.message}`);
    else if (at.some((part) => secretMembers.includes(String(part)))) this.add(at, issue.message);
    else this.add(at, `${issue.message}, got ${formatValue(received)}`);
  }
}

const keyOf = ({ path }: z.core.$ZodIssue): string => path.map(String).join('.');

/** The table of a path: `models.long_context` for `models[3].long_context`, `byok` for `byok.azure`. */
function tableOf(path: KeyPath): string {
  const names = path.filter((part) => typeof part === 'string');
  return names[0] === 'byok' ? 'byok' : names.join('.');
}

function valueAt(value: unknown, path: KeyPath): unknown {
  let at = value;
  for (const part of path) at = (at as Record<string | number, unknown> | undefined)?.[part];
  return at;
}
