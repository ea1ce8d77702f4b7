import { digits, table } from '../table.ts';
import type { PeerFigure } from './compare.ts';

/** `others`: cores that other processes kept busy meanwhile. */
export function peerText(figures: readonly PeerFigure[]): string {
  return table(
    ['figure', 'lathe', figures[0]?.peerName ?? 'peer', 'ratio', 'goal', 'others'],
    figures.map((one) => [
      one.figure,
      digits(one.ours),
      digits(one.peer),
      `${one.ratio.toFixed(2)}x`,
      `${one.ratio >= one.goal ? 'met' : 'missed'} (${one.goal})`,
      digits(one.othersCores),
    ]),
  );
}
