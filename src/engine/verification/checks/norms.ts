/** Norms of whole rows or of heads. */
import { layerNorm } from '../../../../kernels/reference/layer-norm.ts';
import { gatedNorm } from '../../../../kernels/reference/gates.ts';
import { rmsNorm } from '../../../../kernels/reference/rms-norm.ts';
import { perLayerJoin } from '../../../../kernels/reference/per-layer.ts';
import { type Check, f32Unit, fewRoundings, type Report } from './check.ts';

/** Reports whole rows of results that were computed in f32. */
export function reportRow(
  report: Report,
  output: string,
  got: ArrayLike<number>,
  expected: ArrayLike<number>,
  error: (value: number, index: number) => number = fewRoundings,
): void {
  for (let i = 0; i < expected.length; i++) {
    const value = expected[i] as number;
    report(output, { got: got[i] as number, expected: value, error: error(value, i) });
  }
}

export const checkRmsNorm: Check = (site) => {
  const { variant, step, rows } = site;
  const [columns, heads, eps] = [site.param('columns'), site.param('heads'), site.param('eps')];
  const from = variant['IN_PLACE'] === true ? 'y' : 'x';
  const weight = site.before('weight', 0, columns);
  const places = rows
    .filter((row) => variant['PROMPT'] !== true || !step.token(row).hasOwnTile)
    .flatMap((row) => site.pick(heads).map((head) => ({ row, head })));
  const inputs = places.map(({ row, head }) => {
    const start =
      variant['SAMPLED'] === true
        ? step.sample(row).row * site.param('in_stride')
        : row * site.param('in_stride') + site.param('in_offset') + head * columns;
    const to = row * site.param('out_stride') + site.param('out_offset') + head * columns;
    return { x: site.before(from, start, columns), y: site.after('y', to, columns) };
  });
  return (report) => {
    for (const { x, y } of inputs)
      reportRow(report, 'y', y.floats, rmsNorm(x.floats, weight.floats, { rows: 1, cols: columns, eps }));
  };
};

export const checkNormAdd: Check = (site) => {
  const [columns, eps, scale] = [site.param('columns'), site.param('eps'), site.param('scale')];
  const shape = { rows: 1, cols: columns, eps };
  const hasNext = site.variant['NEXT'] === true;
  const weight = site.before('weight', 0, columns);
  const nextWeight = hasNext ? site.before('next_weight', 0, columns) : undefined;
  const inputs = site.rows.map((row) => ({
    x: site.before('x', row * columns, columns),
    old: site.before('y', row * columns, columns),
    y: site.after('y', row * columns, columns),
    out: hasNext ? site.after('out', row * columns, columns) : undefined,
  }));
  return (report) => {
    for (const { x, old, y, out } of inputs) {
      const normed = rmsNorm(x.floats, weight.floats, shape);
      for (const [c, value] of normed.entries()) {
        const before = (old.floats[c] as number) * scale;
        const expected = before + value * scale;
        const error = fewRoundings(value * scale) + 2 * f32Unit * (Math.abs(before) + Math.abs(expected));
        report('y', { got: y.floats[c] as number, expected, computed: value * scale, error });
      }
      if (out && nextWeight)
        reportRow(report, 'out', out.floats, rmsNorm(y.floats, nextWeight.floats, shape));
    }
  };
};

export const checkLayerNorm: Check = (site) => {
  const [columns, eps] = [site.param('columns'), site.param('eps')];
  const affine = site.before('affine', 0, 2 * columns);
  const inputs = site.rows.map((row) => ({
    x: site.before('y', row * columns, columns),
    y: site.after('y', row * columns, columns),
  }));
  return (report) => {
    const weight = affine.floats.subarray(0, columns);
    const bias = affine.floats.subarray(columns);
    for (const { x, y } of inputs) {
      const row = x.floats;
      const expected = layerNorm(row, weight, bias, { rows: 1, cols: columns, eps });
      const mean = row.reduce((sum, value) => sum + value, 0) / columns;
      const deviation = Math.sqrt(row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / columns + eps);
      // The difference to the mean rounds relative to the mean.
      const unit = 4 * f32Unit * (1 + Math.abs(mean) / deviation);
      for (const [c, value] of expected.entries()) {
        const computed = value - (bias[c] as number);
        const error =
          fewRoundings(value) + unit * Math.abs(weight[c] as number) + f32Unit * Math.abs(bias[c] as number);
        report('y', { got: y.floats[c] as number, expected: value, computed, error });
      }
    }
  };
};

export const checkGatedNorm: Check = (site) => {
  const [columns, heads, eps] = [site.param('columns'), site.param('heads'), site.param('eps')];
  const weight = site.before('weight', 0, columns);
  const inputs = site.rows.flatMap((row) =>
    site.pick(heads).map((head) => {
      const at = row * site.param('stride') + head * columns;
      const gates = row * site.param('gate_stride') + site.param('gate_offset') + head * columns;
      return {
        x: site.before('y', at, columns),
        gate: site.before('gate', gates, columns),
        y: site.after('y', at, columns),
      };
    }),
  );
  return (report) => {
    const shape = { rows: 1, cols: columns, eps };
    for (const { x, gate, y } of inputs) {
      const gates = gate.floats;
      reportRow(
        report,
        'y',
        y.floats,
        gatedNorm(x.floats, gates, weight.floats, shape),
        (value, c) => fewRoundings(value) * (1 + Math.abs(gates[c] as number) / 4),
      );
    }
  };
};

/** The streamed rows are not compared: only what the norm adds to them, for parts whose row is known. */
export const checkPerLayerJoin: Check = (site) => {
  const [columns, layers, eps] = [site.param('columns'), site.param('layers'), site.param('eps')];
  const weight = site.before('weight', 0, columns);
  const inputs = site.rows.flatMap((row) =>
    site.pick(layers).map((layer) => {
      const at = (row * layers + layer) * columns;
      return {
        layer,
        id: site.step.token(row).id,
        x: site.before('y', at, columns),
        y: site.after('y', at, columns),
      };
    }),
  );
  return (report) => {
    for (const { layer, id, x, y } of inputs) {
      const streamed = site.streamedRow(id)?.subarray(layer * columns, (layer + 1) * columns);
      if (!streamed) continue;
      const traits = { eps, rowScale: site.param('row_scale'), scale: site.param('scale') };
      const expected = perLayerJoin(x.floats, streamed, weight.floats, traits);
      const added = (c: number) => Math.abs((streamed[c] as number) * traits.rowScale * traits.scale);
      reportRow(report, 'y', y.floats, expected, (value, c) => fewRoundings(Math.abs(value) + 2 * added(c)));
    }
  };
};
