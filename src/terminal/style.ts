import { styleText } from 'node:util';

const styleFormats = {
  good: 'green',
  bad: 'red',
  warn: 'yellow',
  note: 'cyan',
  dim: 'gray',
  strong: 'bold',
} as const;

export type Style = keyof typeof styleFormats;
/** Colors a text, or returns it unchanged. */
export type Paint = (style: Style, text: string) => string;

/** Colors text if the stream is a terminal with colors and `NO_COLOR` is not set. */
export const createPainter =
  (stream: NodeJS.WritableStream): Paint =>
  (style, text) =>
    text === '' ? '' : styleText(styleFormats[style], text, { stream });

/** Layout of the output. */
export interface OutputStyle {
  readonly paint: Paint;
  /** Width in columns. Infinite if the output is not a terminal. */
  readonly width: number;
}
