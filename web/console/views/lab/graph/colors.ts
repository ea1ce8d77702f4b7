import { formatMs } from '../../../../ui/format.ts';
import { formatShare, kernelName, type KernelName, type Times } from './graph-model.ts';

export type ColorMode = 'time' | 'kernel';

/** Colors of a box or node, and the same information as text for those who cannot see color. */
export interface BoxStyle {
  readonly background?: string;
  readonly borderColor?: string;
  readonly text: string;
}

const seriesColorCount = 6;

/** Color of a kernel; built-in kernels are paler. */
export function kernelColor(kernels: readonly KernelName[], name: string): string {
  const index = Math.max(
    0,
    kernels.findIndex((item) => item.name === name),
  );
  return `var(--series-${(index % seriesColorCount) + 1})`;
}

const mixColor = (color: string, part: number): string =>
  `color-mix(in oklab, ${color} ${Math.round(part * 100)}%, var(--raised))`;

/** Maximum tint on which text stays readable in both themes. */
const maxTint = 0.42;

export const timeColor = (share: number, { maxShare }: Times): string =>
  mixColor('var(--series-2)', maxShare === 0 ? 0 : (share / maxShare) * maxTint);

export function boxStyle(
  colorMode: ColorMode,
  item: { readonly ms?: number; readonly share?: number; readonly kernel: string },
  { times, kernels }: { readonly times: Times; readonly kernels: readonly KernelName[] },
): BoxStyle {
  if (colorMode === 'time') {
    if (item.ms === undefined) return { text: 'not measured' };
    const { ms, share = 0 } = item;
    return { background: timeColor(share, times), text: `${formatShare(share)} · ${formatMs(ms)}` };
  }
  const { name, isBuiltin } = kernelName(item.kernel);
  const color = kernelColor(kernels, name);
  return {
    background: mixColor(color, isBuiltin ? 0.12 : 0.3),
    borderColor: color,
    text: isBuiltin ? name : `lab: ${name}`,
  };
}
