/**
 * The manifest of a kernel is in `//!` lines at the top of its source, as in the files of `node dist/lab.js`. The
 * fields of the workbench show and rewrite these lines.
 */
import { readHeader } from '../../../../../src/lab/kernel-header.ts';
import type { components } from '../../../../api/schema.d.ts';
import type { Diagnostic } from '../../../../ui/diagnostics.ts';

export type Registration = components['schemas']['KernelRegistration'];
type Key = 'op' | 'name' | 'entry' | 'dispatch' | 'override' | 'tune' | 'requires' | 'dtypes' | 'bind';

const directive = /^\s*\/\/!\s*([\w-]+)(?:\s*:|\s)?\s*(.*)$/;

/** Number of lines before the first line of WGSL; `//!` lines after it are ignored. */
function headLines(lines: readonly string[]): number {
  const code = lines.findIndex((line) => !/^\s*(?:\/\/.*)?$/.test(line));
  return code === -1 ? lines.length : code;
}

/** Values of a key as typed; trailing blanks are kept, because the user may still be typing. */
export function directives(source: string, key: Key): string[] {
  const lines = source.split('\n');
  return lines.slice(0, headLines(lines)).flatMap((line) => {
    const [, foundKey, value = ''] = directive.exec(line) ?? [];
    return foundKey === key ? [value] : [];
  });
}

/** Returns the source with the lines of a key replaced; new keys go to the end of the `//!` lines. */
export function withDirectives(source: string, key: Key, values: readonly string[]): string {
  const lines = source.split('\n');
  const head = headLines(lines);
  const keyOf = (line: string) => directive.exec(line)?.[1];
  const isLineOfKey = (line: string, index: number) => index < head && keyOf(line) === key;
  const first = lines.findIndex(isLineOfKey);
  const last = lines.slice(0, head).findLastIndex((line) => keyOf(line) !== undefined);
  const insertAt = first === -1 ? last + 1 : first;
  const separator = key === 'override' || key === 'tune' ? ' ' : ': ';
  return [
    ...lines.slice(0, insertAt),
    ...values.map((value) => `//! ${key}${separator}${value}`),
    ...lines.slice(insertAt).filter((line, index) => !isLineOfKey(line, insertAt + index)),
  ].join('\n');
}

export interface Override {
  readonly name: string;
  /** Default in the module; absent: a value is required. */
  readonly defaultValue: string | undefined;
  readonly value: string;
  /** Values that the gate tries, as typed. */
  readonly candidates: string;
}

/** Overrides that the module declares, and those that only the manifest names. */
export function overridesOf(source: string): readonly Override[] {
  const code = source.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
  const declared = new Map(
    [...code.matchAll(/\boverride\s+([\p{XID_Start}_]\p{XID_Continue}*)\s*(?::[^=;]+)?(?:=([^;]*))?;/gu)].map(
      ([, name = '', defaultValue]) => [name, defaultValue?.trim()] as const,
    ),
  );
  const split = (key: 'override' | 'tune') =>
    new Map(
      directives(source, key).map((line) => {
        const [name = '', ...value] = line.split('=');
        return [name.trim(), value.join('=').replace(/^ /, '')] as const;
      }),
    );
  const [values, candidates] = [split('override'), split('tune')];
  return [...new Set([...declared.keys(), ...values.keys(), ...candidates.keys()])].map((name) => ({
    name,
    defaultValue: declared.get(name),
    value: values.get(name) ?? '',
    candidates: candidates.get(name) ?? '',
  }));
}

/** Returns the source with a new value, or new values to try, of an override. An empty value removes the line. */
export function withOverride(source: string, key: 'override' | 'tune', name: string, value: string): string {
  const nonEmpty = overridesOf(source)
    .map((one) =>
      one.name === name
        ? { name, text: value }
        : { name: one.name, text: key === 'tune' ? one.candidates : one.value },
    )
    .filter(({ text }) => text.trim() !== '');
  return withDirectives(
    source,
    key,
    nonEmpty.map((one) => `${one.name} = ${one.text}`),
  );
}

/**
 * The registration from the manifest lines, or their faults.
 * @param op the op that the source must be for
 */
export function registrationOf(
  source: string,
  op: string,
): { readonly registration: Registration } | { readonly faults: readonly Diagnostic[] } {
  const header = readHeader(source.split('\n'));
  const faults = header.faults.map(({ line = 1, column = 1, length = 1, message }) =>
    faultAt(message, { line, column, length }),
  );
  const { name, dispatch, entry_point: entry, overrides, tunables, requires, dtypes, places } = header;
  if (header.op !== undefined && header.op !== op)
    faults.push(
      faultAt(
        `the workbench is open for ${op}: choose ${header.op} there, or write ${op} here`,
        places.get('op'),
      ),
    );
  if (name === undefined && !places.has('name')) faults.push(faultAt('no name: write `//! name: my_kernel`'));
  if (dispatch === undefined && !places.has('dispatch'))
    faults.push(faultAt('no dispatch: write `//! dispatch: tokens`'));
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
      // `readHeader` accepts only formats that the host knows.
      ...(dtypes.length === 0 ? {} : { dtypes: dtypes as NonNullable<Registration['dtypes']> }),
    },
  };
}

const faultAt = (message: string, { line = 1, column = 1, length = 1 } = {}): Diagnostic => ({
  line,
  column,
  endColumn: column + length,
  severity: 'error',
  message,
  source: 'manifest',
});
