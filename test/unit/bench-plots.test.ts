import { describe, expect, it } from 'vitest';
import { type Chart, chartSvg } from '../../bench/chart.ts';

const chart: Chart = {
  title: 'Rate <by> size & shape',
  subtitle: 'an adapter - 2026-01-01',
  x: { label: 'tokens', scale: 'log', ticks: [128, 512, 2048], format: String },
  y: { label: 'tokens/s', scale: 'linear', format: String },
  series: [
    {
      name: 'one',
      points: [
        { x: 128, y: 95 },
        { x: 512, y: 60, label: 'here' },
        { x: 2048, y: 5 },
      ],
    },
    { name: '', points: [{ x: 512, y: 10 }], dashed: true, color: 3 },
  ],
};

/** The centers of the marks. */
const marks = (svg: string) =>
  [...svg.matchAll(/<circle cx="([\d.]+)" cy="([\d.]+)"/g)].map(([, x, y]) => ({
    x: Number(x),
    y: Number(y),
  }));

describe('a chart', () => {
  const svg = chartSvg(chart);

  it('has escaped titles and labels, with units', () => {
    for (const text of [
      'Rate &lt;by&gt; size &amp; shape',
      'an adapter - 2026-01-01',
      'tokens/s',
      '>128<',
      '>here<',
    ]) {
      expect(svg).toContain(text);
    }
    expect(svg.length).toBeLessThan(20_000);
  });

  it('places equal factors at equal distances on a logarithmic axis, and 0 at the start of a linear one', () => {
    const all = marks(svg);
    const [left = 0, middle = 0, right = 0] = all.map(({ x }) => x);
    const [high = 0, mid = 0, low = 0] = all.map(({ y }) => y);
    expect(middle - left).toBeCloseTo(right - middle, 0);
    // Heights above the axis are proportional to the values.
    const foot = 344;
    expect((foot - high) / (foot - low)).toBeCloseTo(95 / 5, 0);
    expect((foot - high) / (foot - mid)).toBeCloseTo(95 / 60, 1);
  });

  it('has no fixed background, and no series without a name in the legend', () => {
    expect(svg).not.toContain('<rect');
    expect(svg.match(/h20"/g)).toHaveLength(1);
  });

  it('is refused without series', () => {
    expect(() => chartSvg({ ...chart, series: [] })).toThrow('nothing to draw');
  });
});
