/** Embeddings and ops that compute each element, or each row, on its own. */
import { poolModes } from '../../../../kernels/pool.ts';
import { activations, gatedActivation } from '../../../../kernels/reference/gated-activation.ts';
import { sigmoidGate } from '../../../../kernels/reference/gates.ts';
import { gelu } from '../../../../kernels/reference/gelu.ts';
import { softcap } from '../../../../kernels/reference/per-layer.ts';
import { pool } from '../../../../kernels/reference/pool.ts';
import { type Check, f32Unit, fewRoundings, type Site, sumOfSquares } from './check.ts';
import { reportRow } from './norms.ts';

/** The exponential in sigmoid and the like is less exact for large arguments. */
const withExponential = (value: number, argument: number): number =>
  fewRoundings(value) * (1 + Math.abs(argument) / 4);

/** Rows of tokens whose id is in this part of the table and was kept. */
export const checkEmbed: Check = (site) => {
  const part = site.weights.partOf(site.buffer('quants'));
  if (!part) return undefined;
  const width = site.param('blocks') * 32;
  const perSum = site.variant['PART'] as number;
  const parts = width / perSum;
  const hasNorm = site.param('norm') !== 0;
  const normWeight = hasNorm ? site.before('norm_weight', 0, width) : undefined;
  const inputs = site.rows.flatMap((row) => {
    const index = site.step.token(row).id - site.param('first_row');
    if (!part.samples.has(index)) return [];
    return [
      {
        index,
        y: site.after('y', row * width, width),
        scaled: hasNorm ? site.after('scaled', row * width, width) : undefined,
        squares: hasNorm ? site.after('squares', row * parts, parts) : undefined,
      },
    ];
  });
  return (report) => {
    for (const { index, y, scaled, squares } of inputs) {
      const weights = site.weights.row(part, index) as Float32Array;
      const largest = weights.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const scale = site.param('scale');
      // Types with minima subtract two numbers of the size of the largest weight.
      const error = () => 4 * f32Unit * largest * Math.abs(scale);
      reportRow(
        report,
        'y',
        y.floats,
        weights.map((value) => value * scale),
        error,
      );
      if (!normWeight || !scaled || !squares) continue;
      const values = y.floats;
      const factors = normWeight.floats;
      reportRow(
        report,
        'scaled',
        scaled.floats,
        values.map((value, c) => value * (factors[c] as number)),
      );
      const sums = Float64Array.from({ length: parts }, (_, p) =>
        sumOfSquares(values.subarray(p * perSum, (p + 1) * perSum)),
      );
      reportRow(report, 'squares', squares.floats, sums);
    }
  };
};

export const checkPositionEmbed: Check = (site) => {
  const width = site.param('blocks') * 32;
  const types = site.param('token_types');
  const part = site.variant['POSITIONS'] === true ? site.weights.partOf(site.buffer('quants')) : undefined;
  const tokenTypes = Array.from({ length: Math.min(types, 2) }, (_, type) =>
    site.before('token_type', type * width, width),
  );
  const inputs = site.rows.map((row) => ({
    position: site.step.token(row).position - site.param('first_row'),
    tokenType: tokenTypes[types > 1 && site.step.token(row).isSecondSegment ? 1 : 0],
    old: site.before('y', row * width, width),
    y: site.after('y', row * width, width),
  }));
  return (report) => {
    for (const { position, tokenType, old, y } of inputs) {
      const isHere = part !== undefined && position >= 0 && position < part.rows;
      const weights = isHere ? site.weights.row(part, position) : undefined;
      if (isHere && !weights) continue;
      const before = old.floats;
      for (const [c, value] of before.entries()) {
        const computed = (tokenType?.floats[c] ?? 0) + (weights?.[c] ?? 0);
        const error = 4 * f32Unit * (Math.abs(value) + Math.abs(computed));
        report('y', { got: y.floats[c] as number, expected: value + computed, computed, error });
      }
    }
  };
};

/** Rows of an op that replaces them in place. */
const inPlace = (site: Site, stride: number, columns: number, name = 'y') =>
  site.rows.map((row) => ({
    row,
    x: site.before(name, row * stride, columns),
    y: site.after(name, row * stride, columns),
  }));

export const checkGatedActivation: Check = (site) => {
  const columns = site.param('columns');
  const activation = site.variant['GELU_TANH'] === true ? 'gelu_tanh' : 'silu';
  const inputs = site.rows.map((row) => ({
    gateUp: site.before('gate_up', row * 2 * columns, 2 * columns),
    y: site.after('y', row * site.param('out_stride'), columns),
  }));
  return (report) => {
    for (const { gateUp, y } of inputs) {
      const gate = gateUp.floats.subarray(0, columns);
      const expected = gatedActivation(gate, gateUp.floats.subarray(columns), activation);
      reportRow(report, 'y', y.floats, expected, (value, c) => withExponential(value, gate[c] as number));
    }
  };
};

export const checkGelu: Check = (site) => {
  const inputs = inPlace(site, site.param('stride'), site.param('columns'));
  return (report) => {
    for (const { x, y } of inputs) {
      const values = x.floats;
      // The kernel's error function has an absolute error of 1.5e-7.
      const error = (value: number, c: number) =>
        withExponential(value, values[c] as number) + 2e-7 * Math.abs(values[c] as number);
      reportRow(report, 'y', y.floats, gelu(values), error);
    }
  };
};

export const checkSigmoidGate: Check = (site) => {
  const columns = site.param('columns');
  const inputs = inPlace(site, site.param('stride'), columns).map((one) => ({
    ...one,
    gate: site.before('gate', one.row * site.param('gate_stride'), columns),
  }));
  return (report) => {
    for (const { x, y, gate } of inputs) {
      const gates = gate.floats;
      const error = (value: number, c: number) => withExponential(value, gates[c] as number);
      reportRow(report, 'y', y.floats, sigmoidGate(x.floats, gates), error);
    }
  };
};

export const checkScale: Check = (site) => {
  const columns = site.param('columns');
  const inputs = inPlace(site, columns, columns);
  return (report) => {
    for (const { x, y } of inputs)
      reportRow(
        report,
        'y',
        y.floats,
        Float64Array.from(x.floats, (value) => value * site.param('scale')),
      );
  };
};

export const checkSoftcap: Check = (site) => {
  const columns = site.param('columns');
  const cap = site.param('cap');
  const inputs = inPlace(site, columns, columns);
  return (report) => {
    for (const { x, y } of inputs) {
      // Some adapters approximate tanh to 11 bits.
      const error = (value: number) => 2 ** -13 * Math.abs(value);
      reportRow(report, 'y', y.floats, softcap(x.floats, cap), error);
    }
  };
};

export const checkPerLayerGate: Check = (site) => {
  const columns = site.param('columns');
  const inputs = inPlace(site, columns, columns, 'gate').map((one) => ({
    ...one,
    input: site.before('inputs', one.row * site.param('in_stride') + site.param('in_offset'), columns),
  }));
  return (report) => {
    for (const { x, y, input } of inputs) {
      const gates = x.floats;
      const factors = input.floats;
      const expected = Float64Array.from(
        gates,
        (gate, c) => activations.gelu_tanh(gate) * (factors[c] as number),
      );
      // Far below zero, 1 + tanh cancels in the oracle.
      const error = (value: number, c: number) =>
        withExponential(value, 2 * (gates[c] as number)) + 1e-15 * Math.abs(factors[c] as number);
      reportRow(report, 'gate', y.floats, expected, error);
    }
  };
};

export const checkPool: Check = (site) => {
  const columns = site.param('columns');
  const mode = (['mean', 'cls', 'last'] as const).find((name) => poolModes[name] === site.param('mode'));
  if (mode === undefined) return undefined;
  const inputs = site.rows.map((index) => {
    const { row, position: length } = site.step.sample(index);
    return {
      length,
      x: site.before('x', (row + 1 - length) * columns, length * columns),
      y: site.after('y', index * columns, columns),
    };
  });
  return (report) => {
    for (const { length, x, y } of inputs) {
      const values = x.floats;
      const expected = pool(values, [length], columns, mode);
      const sizes = new Float64Array(columns);
      for (const [i, value] of values.entries())
        sizes[i % columns] = (sizes[i % columns] as number) + Math.abs(value) / length;
      reportRow(
        report,
        'y',
        y.floats,
        expected,
        (value, c) => fewRoundings(value) + 4 * f32Unit * (sizes[c] as number),
      );
    }
  };
};

export const checkGatherRows: Check = (site) => {
  const columns = site.param('columns');
  const inputs = site.rows.map((index) => ({
    x: site.before('x', site.step.sample(index).row * columns, columns),
    y: site.after('y', index * columns, columns),
  }));
  return (report) => {
    for (const { x, y } of inputs) reportRow(report, 'y', y.floats, x.floats);
  };
};
