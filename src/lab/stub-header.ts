import type { Stub } from './stubs.ts';

/** Header lines that tell the `lathe-lab` tool how to register the file, for example `//! op: rms_norm`. */
export function renderStubHeader(op: string, { dispatch, overrides, requires }: Stub): string {
  const { x, y, z } = dispatch;
  const dispatchTexts = [
    x,
    ...(y === undefined && z === undefined ? [] : [y ?? '1']),
    ...(z === undefined ? [] : [z]),
  ];
  const lines = [
    `//! op: ${op}`,
    `//! dispatch: ${dispatchTexts.join(', ')}`,
    ...Object.entries(overrides).map(([name, value]) => `//! override ${name} = ${value}`),
    ...(requires.length > 0 ? [`//! requires: ${requires.join(', ')}`] : []),
  ];
  return `${lines.join('\n')}\n`;
}
