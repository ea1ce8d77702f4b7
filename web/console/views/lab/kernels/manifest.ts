/**
 * What the host must know of a kernel beside its WGSL stands in `//!` lines at the top of the text, as in the files of
 * `node dist/lab.js`: the fields of the workbench show these lines and rewrite them.
 */
import { readHeader } from '../../../../../src/lab-tool/header.ts';
import type { components } from '../../../api/schema.d.ts';
import type { Diagnostic } from '../../../parts/diagnostics.ts';

export type Registration = components['schemas']['KernelRegistration'];
type Key = 'op' | 'name' | 'entry' | 'dispatch' | 'override' | 'tune' | 'requires' | 'dtypes' | 'bind';

const directive = /^\s*\/\/!\s*([\w-]+)(?:\s*:|\s)?\s*(.*)$/;

/** How many lines stand before the first line of WGSL: further down a `//!` line says nothing. */
function headLines(lines: readonly string[]): number {
  const code = lines.findIndex((line) => !/^\s*(?:\/\/.*)?$/.test(line));
  return code === -1 ? lines.length : code;
}

/** What the lines of a key say, as it was typed: blanks at its end may be the beginning of what comes next. */
export function directives(source: string, key: Key): string[] {
  const lines = source.split('\n');
  return lines.slice(0, headLines(lines)).flatMap((line) => {
    const [, found, value = ''] = directive.exec(line) ?? [];
    return found === key ? [value] : [];
  });
}

/** The text with these lines for a key in the place of those it had; at the end of the `//!` lines where it had none. */
export function withDirectives(source: string, key: Key, values: readonly string[]): string {
  const lines = source.split('\n');
  const head = headLines(lines);
  const keyOf = (line: string) => directive.exec(line)?.[1];
  const isOurs = (line: string, index: number) => index < head && keyOf(line) === key;
  const first = lines.findIndex(isOurs);
  const last = lines.slice(0, head).findLastIndex((line) => keyOf(line) !== undefined);
  const at = first === -1 ? last + 1 : first;
  const sign = key === 'override' || key === 'tune' ? ' ' : ': ';
  return [
    ...lines.slice(0, at),
    ...values.map((value) => `//! ${key}${sign}${value}`),
    ...lines.slice(at).filter((line, index) => !isOurs(line, at + index)),
  ].join('\n');
}

export interface Override {
  readonly name: string;
  /** Of the module; absent: it must be given. */
  readonly usual: string | undefined;
  readonly value: string;
  /** Values to try. */
  readonly tried: string;
}

/** The overrides that the module declares, and those that only its manifest names. */
export function overridesOf(source: string): readonly Override[] {
  const code = source.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
  const declared = new Map(
    [...code.matchAll(/\boverride\s+([\p{XID_Start}_]\p{XID_Continue}*)\s*(?::[^=;]+)?(?:=([^;]*))?;/gu)].map(
      ([, name = '', usual]) => [name, usual?.trim()] as const,
    ),
  );
  const split = (key: 'override' | 'tune') =>
    new Map(
      directives(source, key).map((line) => {
        const [name = '', ...value] = line.split('=');
        return [name.trim(), value.join('=').replace(/^ /, '')] as const;
      }),
    );
  const [values, tried] = [split('override'), split('tune')];
  return [...new Set([...declared.keys(), ...values.keys(), ...tried.keys()])].map((name) => ({
    name,
    usual: declared.get(name),
    value: values.get(name) ?? '',
    tried: tried.get(name) ?? '',
  }));
}

/** The text with another value of an override, or other values to try. Nothing: the line is left out. */
export function withOverride(source: string, key: 'override' | 'tune', name: string, value: string): string {
  const kept = overridesOf(source)
    .map((one) =>
      one.name === name
        ? { name, text: value }
        : { name: one.name, text: key === 'tune' ? one.tried : one.value },
    )
    .filter(({ text }) => text.trim() !== '');
  return withDirectives(
    source,
    key,
    kept.map((one) => `${one.name} = ${one.text}`),
  );
}

/**
 * What is registered, or what is wrong with the lines.
 * @param op the text must be for it
 */
export function registrationOf(
  source: string,
  op: string,
): { readonly registration: Registration } | { readonly faults: readonly Diagnostic[] } {
  const header = readHeader(source.split('\n'));
  const faults = header.faults.map(({ line = 1, column = 1, length = 1, message }) =>
    fault(message, { line, column, length }),
  );
  const { name, dispatch, entry_point: entry, overrides, tunables, requires, dtypes, places } = header;
  if (header.op !== undefined && header.op !== op)
    faults.push(
      fault(
        `the workbench is open for ${op}: choose ${header.op} there, or write ${op} here`,
        places.get('op'),
      ),
    );
  if (name === undefined && !places.has('name')) faults.push(fault('no name: write `//! name: my_kernel`'));
  if (dispatch === undefined && !places.has('dispatch'))
    faults.push(fault('no dispatch: write `//! dispatch: tokens`'));
  if (faults.length > 0 || name === undefined || dispatch === undefined) return { faults };
  return {
    registration: {
      name,
      op,
      source,
      dispatch,
      ...(entry === undefined ? {} : { entry_point: entry }),
      ...(Object.keys(overrides).length === 0 ? {} : { overrides }),
      ...(Object.keys(tunables).length === 0 ? {} : { tunables }),
      ...(requires.length === 0 ? {} : { requires }),
      // The header's reader lets formats through that the host knows, and no others.
      ...(dtypes.length === 0 ? {} : { dtypes: dtypes as NonNullable<Registration['dtypes']> }),
    },
  };
}

const fault = (message: string, { line = 1, column = 1, length = 1 } = {}): Diagnostic => ({
  line,
  column,
  endColumn: column + length,
  severity: 'error',
  message,
  source: 'manifest',
});
