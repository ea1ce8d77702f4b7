import { describe, expect, it } from 'vitest';
import { webGpuIssue } from '../../web/demo/webgpu-issue.ts';

describe('the WebGPU check of the demo, before anything is loaded', () => {
  it.each([
    ['WebGPU available', { isSecureContext: true, navigator: { gpu: {} } }, undefined],
    ['no WebGPU', { isSecureContext: true, navigator: {} }, 'missing'],
    ['WebGPU switched off', { isSecureContext: true, navigator: { gpu: undefined } }, 'missing'],
    ['an insecure context, which hides WebGPU', { isSecureContext: false, navigator: {} }, 'insecure'],
  ])('%s', (_what, page, lack) => {
    expect(webGpuIssue(page)).toBe(lack);
  });
});
