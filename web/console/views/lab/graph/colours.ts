import { formatMs } from '../../../parts/format.ts';
import { formatShare, kernelName, type KernelName, type Times } from './model.ts';

export type Colouring = 'time' | 'kernel';

/** Of a box or a node: its ground, and the same in words, because colour alone says nothing to many. */
export interface Look {
  readonly ground?: string;
  readonly edge?: string;
  readonly words: string;
}

const series = 6;

/** A colour of the tokens a kernel; built-in ones are paler. */
export function kernelColour(kernels: readonly KernelName[], name: string): string {
  const index = Math.max(
    0,
    kernels.findIndex((one) => one.name === name),
  );
  return `var(--series-${(index % series) + 1})`;
}

const mixed = (colour: string, part: number): string =>
  `color-mix(in oklab, ${colour} ${Math.round(part * 100)}%, var(--raised))`;

/** Most of the colour that text on it can still be read on, in both themes. */
const mostTint = 0.42;

export const timeGround = (share: number, { mostShare }: Times): string =>
  mixed('var(--series-2)', mostShare === 0 ? 0 : (share / mostShare) * mostTint);

export function lookOf(
  colouring: Colouring,
  one: { readonly ms?: number; readonly share?: number; readonly kernel: string },
  { times, kernels }: { readonly times: Times; readonly kernels: readonly KernelName[] },
): Look {
  if (colouring === 'time') {
    if (one.ms === undefined) return { words: 'not measured' };
    const { ms, share = 0 } = one;
    return { ground: timeGround(share, times), words: `${formatShare(share)} · ${formatMs(ms)}` };
  }
  const { name, isBuiltin } = kernelName(one.kernel);
  const colour = kernelColour(kernels, name);
  return {
    ground: mixed(colour, isBuiltin ? 0.12 : 0.3),
    edge: colour,
    words: isBuiltin ? name : `lab: ${name}`,
  };
}
