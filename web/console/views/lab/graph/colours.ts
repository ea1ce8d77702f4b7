import { formatMs } from '../../../parts/format.ts';
import { formatShare, kernelName, type KernelName, type Times } from './model.ts';

export type Colouring = 'time' | 'kernel';

/** Colors of a box or node, and the same information as text for those who cannot see color. */
export interface Look {
  readonly ground?: string;
  readonly edge?: string;
  readonly words: string;
}

const series = 6;

/** Color of a kernel; built-in kernels are paler. */
export function kernelColour(kernels: readonly KernelName[], name: string): string {
  const index = Math.max(
    0,
    kernels.findIndex((one) => one.name === name),
  );
  return `var(--series-${(index % series) + 1})`;
}

const mixed = (colour: string, part: number): string =>
  `color-mix(in oklab, ${colour} ${Math.round(part * 100)}%, var(--raised))`;

/** Maximum tint on which text stays readable in both themes. */
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
