import { ceilDiv, cartesianProduct, defineKernel } from './define.ts';

interface ShortConvVariant extends Record<string, number | boolean | string> {
  /** Kernel length: inputs for each output. */
  KERNEL: number;
  /** Computes C * conv(B * x) instead of silu(conv(x)). */
  GATED: boolean;
  WG: number;
}

/** Supported kernel lengths. */
export const supportedConvLengths: readonly number[] = [2, 3, 4, 5, 6, 7, 8];

/** Causal convolution of each channel over the tokens of each sequence in the step and the inputs in its state. */
export const shortConv = defineKernel({
  op: 'short_conv',
  source: 'short_conv.wgsl',
  bindings: ({ GATED }: ShortConvVariant) => [
    ['vectors', 'read'],
    ['spans', 'read'],
    ['state', 'read_write'],
    ['mixed', GATED ? 'read' : 'read_write'],
    GATED ? ['y', 'read_write'] : undefined,
    ['params', 'uniform'],
  ],
  params: [
    ['channels', 'u32'],
    ['stride', 'u32'],
    ['out_stride', 'u32'],
    ['biased', 'u32'],
  ],
  grid: (variant, params: { channels: number } & Record<string, number>, dims) => [
    ceilDiv(params.channels, variant.WG),
    dims.sequenceRuns,
    1,
  ],
  variants: cartesianProduct({ KERNEL: supportedConvLengths, GATED: [false, true], WG: [32] }),
});
