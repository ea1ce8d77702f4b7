import { styleText } from 'node:util';

const formats = {
  good: 'green',
  bad: 'red',
  warn: 'yellow',
  note: 'cyan',
  dim: 'gray',
  strong: 'bold',
} as const;

export type Style = keyof typeof formats;
/** Colours a text, or leaves it as it is. */
export type Paint = (style: Style, text: string) => string;

/** Colours where the stream is a terminal that has them and `NO_COLOR` does not forbid them. */
export const painter =
  (stream: NodeJS.WritableStream): Paint =>
  (style, text) =>
    text === '' ? '' : styleText(formats[style], text, { stream });

/** How output is laid out. */
export interface Look {
  readonly paint: Paint;
  /** Columns; infinite where the output is no terminal. */
  readonly width: number;
}
