import { describe, expect, it } from 'vitest';
import { lackOf } from '../../web/demo/support.ts';

describe('what the demo lacks before anything is loaded', () => {
  it.each([
    ['nothing', { isSecureContext: true, navigator: { gpu: {} } }, undefined],
    ['WebGPU', { isSecureContext: true, navigator: {} }, 'missing'],
    ['a WebGPU that is switched off', { isSecureContext: true, navigator: { gpu: undefined } }, 'missing'],
    ['a secure way here, which hides WebGPU', { isSecureContext: false, navigator: {} }, 'insecure'],
  ])('%s', (_what, page, lack) => {
    expect(lackOf(page)).toBe(lack);
  });
});
