/** Renders line charts as small SVG documents, readable on light and dark pages. */

export interface Axis {
  /** Includes the unit. */
  readonly label: string;
  readonly scale: 'linear' | 'log';
  /** Tick positions; chosen automatically when absent. */
  readonly ticks?: readonly number[];
  readonly format: (value: number) => string;
}

export interface Point {
  readonly x: number;
  readonly y: number;
  readonly label?: string;
  /** Puts the label below the point, when another point is directly above. */
  readonly below?: boolean;
}

export interface Series {
  /** Name in the legend; a series without a name is left out of it. */
  readonly name: string;
  readonly points: readonly Point[];
  readonly dashed?: boolean;
  /** Index of the color; default: the index of the series. */
  readonly color?: number;
}

export interface Chart {
  readonly title: string;
  /** Machine, adapter and date. */
  readonly subtitle: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
}

const width = 720;
const height = 400;
const plot = { left: 72, right: 696, top: 100, bottom: 344 };
/** Medium tones, which are readable on white and on near black. */
const colors = ['#2f81d6', '#d9662b', '#2f9e5a', '#a861c9', '#b8860b', '#c9527a'];
const textColor = '#7d8590';
const font = 'system-ui, sans-serif';

interface Scale {
  /** Position of a value on the axis, 0 to 1. */
  readonly position: (value: number) => number;
  readonly ticks: readonly number[];
}

/**
 * @throws Error when no series has a point
 */
export function chartSvg(chart: Chart): string {
  const { title, subtitle, series } = chart;
  const points = series.flatMap((one) => one.points);
  if (points.length === 0) throw new Error(`nothing to draw: ${title}`);
  const x = scaleOf(
    chart.x,
    points.map((point) => point.x),
  );
  const y = scaleOf(
    chart.y,
    points.map((point) => point.y),
  );
  const left = (value: number) => round(plot.left + x.position(value) * (plot.right - plot.left));
  const top = (value: number) => round(plot.bottom - y.position(value) * (plot.bottom - plot.top));
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="${font}" font-size="13" fill="${textColor}">`,
    `<title>${escapeXml(`${title} (${subtitle})`)}</title>`,
    text(title, 16, 26, 'font-size="17" font-weight="600"'),
    text(subtitle, 16, 46, 'font-size="11"'),
    ...y.ticks.map(
      (tick) =>
        `<path d="M${plot.left} ${top(tick)}H${plot.right}" stroke="${textColor}" stroke-opacity=".25"/>` +
        text(chart.y.format(tick), plot.left - 8, top(tick) + 4, 'text-anchor="end"'),
    ),
    ...x.ticks.map(
      (tick) =>
        `<path d="M${left(tick)} ${plot.bottom}v5" stroke="${textColor}"/>` +
        text(chart.x.format(tick), left(tick), plot.bottom + 20, 'text-anchor="middle"'),
    ),
    `<path d="M${plot.left} ${plot.top}V${plot.bottom}H${plot.right}" fill="none" stroke="${textColor}"/>`,
    text(chart.y.label, 16, plot.top - 12, ''),
    text(chart.x.label, (plot.left + plot.right) / 2, height - 14, 'text-anchor="middle"'),
    ...legend(series),
    ...series.map((one, index) => line(one, colorOf(one, index), left, top)),
    '</svg>',
  ];
  return `${parts.join('\n')}\n`;
}

function line(
  { points, dashed }: Series,
  color: string,
  left: (value: number) => number,
  top: (value: number) => number,
): string {
  const path = points.map(({ x, y }, index) => `${index === 0 ? 'M' : 'L'}${left(x)} ${top(y)}`).join('');
  const dash = dashed ? ' stroke-dasharray="6 4"' : '';
  const marks = points.map(({ x, y, label, below }) => {
    // Labels in the right half end at the point, so that they stay inside the chart.
    const isRightHalf = left(x) > (plot.left + plot.right) / 2;
    const anchor = isRightHalf ? 'text-anchor="end"' : '';
    return (
      `<circle cx="${left(x)}" cy="${top(y)}" r="3.5" fill="${color}"/>` +
      (label === undefined
        ? ''
        : text(label, left(x) + (isRightHalf ? -9 : 9), top(y) + (below ? 17 : -8), anchor))
    );
  });
  return `<path d="${path}" fill="none" stroke="${color}" stroke-width="2"${dash}/>${marks.join('')}`;
}

function legend(series: readonly Series[]): string[] {
  let position = 16;
  return series.flatMap((one, index) => {
    if (one.name === '') return [];
    const dash = one.dashed ? ' stroke-dasharray="6 4"' : '';
    const start = position;
    // About 7 pixels per letter at this size.
    position += 46 + one.name.length * 7;
    return (
      `<path d="M${round(start)} 64h20" stroke="${colorOf(one, index)}" stroke-width="2"${dash}/>` +
      text(one.name, round(start + 26), 68, 'font-size="12"')
    );
  });
}

const colorOf = ({ color }: Series, index: number): string =>
  colors[(color ?? index) % colors.length] ?? textColor;

/** Linear axes start at 0, so that heights are comparable; logarithmic ones at the tick below the smallest value. */
function scaleOf({ scale, ticks }: Axis, values: readonly number[]): Scale {
  const max = Math.max(...values);
  if (scale === 'linear') {
    const step = niceStep(max / 5);
    const steps = Math.ceil(max / step - 1e-9);
    const all = ticks ?? Array.from({ length: steps + 1 }, (_, index) => index * step);
    const end = Math.max(max, all.at(-1) ?? 0);
    return { position: (value) => value / end, ticks: all };
  }
  const min = Math.min(...values);
  const all = ticks ?? logTicks(min, max);
  const from = Math.log(Math.min(min, all[0] ?? min));
  const to = Math.log(Math.max(max, all.at(-1) ?? max));
  return { position: (value) => (to === from ? 0.5 : (Math.log(value) - from) / (to - from)), ticks: all };
}

/** The smallest 1, 2 or 5 times a power of ten that is at least `about`. */
function niceStep(about: number): number {
  const power = 10 ** Math.floor(Math.log10(about));
  return ([1, 2, 5].find((factor) => factor * power >= about) ?? 10) * power;
}

/** 1, 2 and 5 times the powers of ten that enclose the range. */
function logTicks(min: number, max: number): number[] {
  const first = Math.floor(Math.log10(min));
  const last = Math.ceil(Math.log10(max));
  const all = Array.from({ length: last - first + 1 }, (_, index) => first + index).flatMap((power) =>
    [1, 2, 5].map((factor) => factor * 10 ** power),
  );
  const from = all.findLastIndex((tick) => tick <= min * (1 + 1e-9));
  const to = all.findIndex((tick) => tick >= max * (1 - 1e-9));
  return all.slice(from, to + 1);
}

const text = (content: string, x: number, y: number, attributes: string): string =>
  `<text x="${x}" y="${y}"${attributes === '' ? '' : ` ${attributes}`}>${escapeXml(content)}</text>`;

const round = (value: number): number => Number(value.toFixed(1));

const escapeXml = (content: string): string =>
  content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
