import { createHash } from 'node:crypto';
import { canonicalJson } from '../signing/canonical-json.ts';
import type { KernelRegistration } from './types.ts';
import { tokenize } from './wgsl/tokens.ts';

/**
 * `sha256:<hex>` of everything that defines what a kernel computes: op, source, entry point, dispatch, overrides,
 * required features. The name, the tunables and the weight formats do not change it.
 */
export function kernelDigest(registration: KernelRegistration): string {
  // A lone surrogate has no UTF-8 encoding and no meaning in WGSL.
  return digestOf(registration, registration.source.toWellFormed());
}

/** The same of the program alone: comments and white space do not change it. */
export const programDigest = (registration: KernelRegistration): string =>
  digestOf(
    registration,
    tokenize(registration.source.toWellFormed())
      .map(({ text }) => text)
      .join(' '),
  );

function digestOf(registration: KernelRegistration, source: string): string {
  const { op, dispatch, overrides = {}, requires = [] } = registration;
  const { x, y = '1', z = '1' } = dispatch;
  const text = canonicalJson({
    op,
    source,
    entry_point: registration.entry_point ?? 'main',
    dispatch: { x, y, z },
    overrides,
    requires: [...new Set(requires)].sort(),
  });
  return `sha256:${createHash('sha256').update(text).digest('hex')}`;
}
