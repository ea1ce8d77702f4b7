/** Routing of experts, layers with states, and sampling. */
import { deltaNet } from '../../../../kernels/reference/delta-net.ts';
import { route } from '../../../../kernels/reference/experts.ts';
import { argmax } from '../../../../kernels/reference/softmax.ts';
import { type Check, f32Unit, fewRoundings, sumOfSquares } from './check.ts';

export const checkRoute: Check = (site) => {
  const [experts, used] = [site.param('experts'), site.param('used')];
  const inputs = site.rows.map((row) => ({
    logits: site.before('logits', row * experts, experts),
    routes: site.after('routes', 2 * row * used, 2 * used),
  }));
  return (report) => {
    for (const { logits, routes } of inputs) {
      const traits = { ofAll: site.param('of_all') !== 0, scale: site.param('scale') };
      const { selected, shares } = route(logits.floats, { tokens: 1, experts, used }, traits);
      for (const [rank, expert] of selected.entries()) {
        report('expert', { got: routes.words[2 * rank] as number, expected: expert, error: 0.01 });
        const share = shares[rank] as number;
        report('share', {
          got: routes.floats[2 * rank + 1] as number,
          expected: share,
          error: 8 * fewRoundings(share),
        });
      }
    }
  };
};

export const checkExpertSum: Check = (site) => {
  const width = 4 * site.param('quads');
  const used = site.param('used');
  const inputs = site.rows.map((row) => ({
    x: site.before('x', row * used * width, used * width),
    routes: site.before('routes', 2 * row * used, 2 * used),
    old: site.before('hidden', row * width, width),
    hidden: site.after('hidden', row * width, width),
  }));
  return (report) => {
    for (const { x, routes, old, hidden } of inputs) {
      const [values, shares, before, after] = [x.floats, routes.floats, old.floats, hidden.floats];
      for (let c = 0; c < width; c++) {
        let computed = 0;
        let size = 0;
        for (let pair = 0; pair < used; pair++) {
          const term = (shares[2 * pair + 1] as number) * (values[pair * width + c] as number);
          computed += term;
          size += Math.abs(term);
        }
        const expected = (before[c] as number) + computed;
        const error = f32Unit * (4 * size + 2 * Math.abs(expected));
        report('hidden', { got: after[c] as number, expected, computed, error });
      }
    }
  };
};

/** The run of tokens of one sequence that a row belongs to. */
const spanOf = ({ step }: Parameters<Check>[0], row: number) => {
  for (let index = 0; index < step.dims.sequenceRuns; index++) {
    const span = step.tile('spans', index);
    if (row >= span.row && row < span.row + span.count) return span;
  }
  return undefined;
};

export const checkShortConv: Check = (site) => {
  const [channels, stride] = [site.param('channels'), site.param('stride')];
  const kernel = site.variant['KERNEL'] as number;
  const isGated = site.variant['GATED'] === true;
  const isBiased = site.param('biased') !== 0;
  const words = isGated ? 3 * channels : channels;
  const vectors = site.before('vectors', 0, channels * (kernel + (isBiased ? 1 : 0)));
  const inputs = site.rows.flatMap((row) => {
    const span = spanOf(site, row);
    if (!span) return [];
    /** Rows of the step, or of the state when they precede it; newest first. */
    const taps = Array.from({ length: kernel }, (_, age) => {
      const at = row - age;
      if (at >= span.row) return { mixed: site.before('mixed', at * stride, words), state: undefined };
      if (span.position === 0) return { mixed: undefined, state: undefined };
      const kept = kernel - 1 - (span.row - at);
      const first = (span.slot * (kernel - 1) + kept) * channels;
      return { mixed: undefined, state: site.before('state', first, channels) };
    });
    return [
      {
        taps,
        y: isGated
          ? site.after('y', row * site.param('out_stride'), channels)
          : site.after('mixed', row * stride, channels),
      },
    ];
  });
  return (report) => {
    const weights = vectors.floats;
    for (const { taps, y } of inputs) {
      const rows = taps.map(({ mixed, state }): ArrayLike<number> => {
        if (state) return state.floats;
        const values = mixed?.floats;
        if (!values) return new Float32Array(channels);
        return isGated
          ? Float64Array.from(
              { length: channels },
              (_, c) => (values[c] as number) * (values[c + 2 * channels] as number),
            )
          : values;
      });
      const now = taps[0]?.mixed?.floats ?? new Float32Array(words);
      for (let c = 0; c < channels; c++) {
        let sum = isBiased ? (weights[channels * kernel + c] as number) : 0;
        let size = Math.abs(sum);
        for (const [age, row] of rows.entries()) {
          const term = (weights[c * kernel + kernel - 1 - age] as number) * (row[c] as number);
          sum += term;
          size += Math.abs(term);
        }
        const factor = isGated ? (now[c + channels] as number) : 1 / (1 + Math.exp(-sum));
        const expected = factor * sum;
        const error = 4 * f32Unit * size * Math.abs(isGated ? factor : 1.1) + 2 * fewRoundings(expected);
        report('y', { got: y.floats[c] as number, expected, error });
      }
    }
  };
};

/** Columns of a state that are compared; they are independent of each other. */
const stateColumns = 6;

export const checkDeltaNet: Check = (site) => {
  const { step } = site;
  const keyDim = site.variant['KEY'] as number;
  const [keyHeads, valueHeads] = [site.param('key_heads'), site.param('value_heads')];
  const [valueDim, stride] = [site.param('value_dim'), site.param('stride')];
  const gatesAt = 2 * (keyHeads * keyDim + valueHeads * valueDim);
  const vectors = site.before('vectors', 0, 2 * valueHeads);
  const spans = Array.from({ length: step.dims.sequenceRuns }, (_, index) => step.tile('spans', index));
  const inputs = site.pick(spans.length).map((index) => {
    const span = spans[index] as (typeof spans)[number];
    return {
      span,
      mixed: Array.from({ length: span.count }, (_, t) =>
        site.before('mixed', (span.row + t) * stride, gatesAt + 2 * valueHeads),
      ),
      heads: site.pick(valueHeads).map((head) => {
        const stateAt = (span.slot * valueHeads + head) * valueDim * keyDim;
        return {
          head,
          columns: site.pick(valueDim).slice(-stateColumns),
          state: site.before('state', stateAt, valueDim * keyDim),
          newState: site.after('state', stateAt, valueDim * keyDim),
          out: Array.from({ length: span.count }, (_, t) =>
            site.after('y', (span.row + t) * site.param('out_stride') + head * valueDim, valueDim),
          ),
        };
      }),
    };
  });
  return (report) => {
    for (const { span, mixed, heads } of inputs) {
      const rows = mixed.map((range) => range.floats);
      const gather = (of: (row: Float32Array) => Iterable<number>) =>
        Float64Array.from(rows.flatMap((row) => [...of(row)]));
      for (const { head, columns, state, newState, out } of heads) {
        const keyAt = (head % keyHeads) * keyDim;
        const valueAt = 2 * keyHeads * keyDim + head * valueDim;
        const old = state.floats;
        const result = deltaNet(
          {
            q: gather((row) => row.subarray(keyAt, keyAt + keyDim)),
            k: gather((row) => row.subarray(keyHeads * keyDim + keyAt, keyHeads * keyDim + keyAt + keyDim)),
            v: gather((row) => columns.map((column) => row[valueAt + column] as number)),
            beta: gather((row) => [row[gatesAt + head] as number]),
            alpha: gather((row) => [row[gatesAt + valueHeads + head] as number]),
            dt: vectors.floats.subarray(head, head + 1),
            a: vectors.floats.subarray(valueHeads + head, valueHeads + head + 1),
          },
          { tokens: span.count, keyHeads: 1, valueHeads: 1, keyDim, valueDim: columns.length },
          // [valueDim, keyDim] on the GPU, [keyDim, valueDim] in the oracle.
          span.position === 0
            ? undefined
            : Float64Array.from({ length: keyDim * columns.length }, (_, i) => {
                const column = columns[i % columns.length] as number;
                return old[column * keyDim + Math.floor(i / columns.length)] as number;
              }),
        );
        const largest = (values: Float64Array) =>
          values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
        const unit = 16 * f32Unit * Math.sqrt(span.count);
        const stateUnit = unit * largest(result.state);
        // A result is the product of a state's column with a query of length 1; its terms may cancel.
        const outUnits = columns.map((column, c) => {
          const kept = sumOfSquares(old.subarray(column * keyDim, (column + 1) * keyDim));
          const now = sumOfSquares(result.state.filter((_, i) => i % columns.length === c));
          return unit * Math.sqrt(Math.max(now, span.position === 0 ? 0 : kept) / keyDim);
        });
        for (const [i, expected] of result.out.entries()) {
          const row = out[Math.floor(i / columns.length)]?.floats;
          const got = row?.[columns[i % columns.length] as number] as number;
          report('y', { got, expected, error: outUnits[i % columns.length] as number });
        }
        for (const [i, expected] of result.state.entries()) {
          const column = columns[i % columns.length] as number;
          const got = newState.floats[column * keyDim + Math.floor(i / columns.length)] as number;
          report('state', { got, expected, error: stateUnit });
        }
      }
    }
  };
};

/** Greedy samples: the lowest id with the largest logit. */
export const checkSamplePick: Check = (site) => {
  const vocabulary = site.param('vocabulary');
  const inputs = site.rows.map((index) => ({
    logits: site.before('logits', index * vocabulary, vocabulary),
    result: site.after('results', index, 1),
  }));
  return (report) => {
    for (const { logits, result } of inputs)
      report('token', { got: result.words[0] as number, expected: argmax(logits.floats), error: 0.01 });
  };
};
