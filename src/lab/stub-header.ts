import type { Stub } from './stubs.ts';

/** Directives that tell the authors' tool how to register a file: `//! op: rms_norm`. */
export function stubHeader(op: string, { dispatch, overrides, requires }: Stub): string {
  const { x, y, z } = dispatch;
  const grid = [
    x,
    ...(y === undefined && z === undefined ? [] : [y ?? '1']),
    ...(z === undefined ? [] : [z]),
  ];
  const lines = [
    `//! op: ${op}`,
    `//! dispatch: ${grid.join(', ')}`,
    ...Object.entries(overrides).map(([name, value]) => `//! override ${name} = ${value}`),
    ...(requires.length > 0 ? [`//! requires: ${requires.join(', ')}`] : []),
  ];
  return `${lines.join('\n')}\n`;
}
