/** Attention over the cache's own keys and values, rotation, and the writes to the cache. */
import { pageTokens } from '../../../../kernels/rope-kv-write.ts';
import { numberFromF16 } from '../../../../kernels/reference/half.ts';
import { softmax } from '../../../../kernels/reference/softmax.ts';
import type { ObservedRange } from '../observe.ts';
import type { TileRecord } from '../step-records.ts';
import {
  type Check,
  f16Flush,
  f16Rounding,
  f32Unit,
  fewRoundings,
  inverseRms,
  type Report,
  type Site,
  sumOfSquares,
} from './check.ts';

/** Keys and values of a sequence, as the dispatch left them. */
class CachedRows {
  readonly #site: Site;
  readonly #pages = new Map<string, ObservedRange>();
  readonly #kvHeads: number;
  readonly #headDim: number;

  constructor(site: Site, kvHeads: number, headDim: number) {
    this.#site = site;
    this.#kvHeads = kvHeads;
    this.#headDim = headDim;
  }

  /** Requests the pages of positions below `end`. */
  request(slot: number, end: number): void {
    for (let index = 0; index * pageTokens < end; index++) {
      const page = this.#site.step.page(slot, index);
      for (const name of ['k_cache', 'v_cache']) {
        const key = `${name} ${page}`;
        if (this.#pages.has(key)) continue;
        const words = (this.#kvHeads * pageTokens * this.#headDim) / 2;
        this.#pages.set(key, this.#site.after(name, page * words, words));
      }
    }
  }

  /** [headDim] */
  row(name: 'k_cache' | 'v_cache', slot: number, position: number, kvHead: number): Float64Array {
    const page = this.#site.step.page(slot, Math.floor(position / pageTokens));
    const range = this.#pages.get(`${name} ${page}`);
    if (!range) throw new Error(`position ${position} was not requested`);
    const first = (kvHead * pageTokens + (position % pageTokens)) * this.#headDim;
    return Float64Array.from(range.halves.subarray(first, first + this.#headDim), numberFromF16);
  }
}

interface Attended {
  /** [headDim] */
  readonly out: Float64Array;
  readonly errors: Float64Array;
  /** Logarithm of the softmax's denominator. */
  readonly logMass: number;
}

/** One query over positions from `first` to `end`, and the error that f32 arithmetic causes. */
function attend(
  query: Float64Array,
  rows: { keys: readonly Float64Array[]; values: readonly Float64Array[] },
  { scale, sink }: { scale: number; sink: number | undefined },
): Attended {
  const scores = new Float64Array(rows.keys.length + 1).fill(sink ?? Number.NEGATIVE_INFINITY);
  let largestTerms = 0;
  let largestFlush = 0;
  for (const [s, key] of rows.keys.entries()) {
    let score = 0;
    let terms = 0;
    let flushed = 0;
    for (let d = 0; d < query.length; d++) {
      const term = (query[d] as number) * (key[d] as number) * scale;
      score += term;
      terms += term * term;
      flushed += f16Flush(key[d] as number) * Math.abs(query[d] as number) * scale;
    }
    scores[s] = score;
    largestFlush = Math.max(largestFlush, flushed);
    largestTerms = Math.max(largestTerms, Math.sqrt(terms), Math.abs(score));
  }
  const weights = softmax(scores);
  const out = new Float64Array(query.length);
  const sizes = new Float64Array(query.length);
  const flushes = new Float64Array(query.length);
  for (const [s, value] of rows.values.entries()) {
    for (let d = 0; d < out.length; d++) {
      const term = (weights[s] as number) * (value[d] as number);
      out[d] = (out[d] as number) + term;
      sizes[d] = (sizes[d] as number) + Math.abs(term);
      flushes[d] = (flushes[d] as number) + (weights[s] as number) * f16Flush(value[d] as number);
    }
  }
  // An error of a score is a relative error of its weight.
  const unit = f32Unit * (8 + 4 * largestTerms) + largestFlush;
  const largest = scores.reduce((most, one) => Math.max(most, one), Number.NEGATIVE_INFINITY);
  const mass = scores.reduce((sum, one) => sum + Math.exp(one - largest), 0);
  return {
    out,
    errors: sizes.map((size, d) => unit * size + (flushes[d] as number)),
    logMass: largest + Math.log(mass),
  };
}

/** Rotates the first elements of a head by a row of the table. */
function rotate(head: Float64Array, turns: Float32Array, isNeox: boolean): Float64Array {
  const out = head.slice();
  const half = turns.length / 2;
  for (let i = 0; i < half; i++) {
    const [low, high] = isNeox ? [i, i + half] : [2 * i, 2 * i + 1];
    const [cos, sin] = [turns[2 * i] as number, turns[2 * i + 1] as number];
    const [a, b] = [head[low] as number, head[high] as number];
    out[low] = a * cos - b * sin;
    out[high] = a * sin + b * cos;
  }
  return out;
}

const windowStart = (site: Site, position: number): number => {
  const window = site.variant['WINDOW'] === true ? site.param('window') : 0;
  return window > 0 ? Math.max(0, position + 1 - window) : 0;
};

const sinkOf = (sinks: ObservedRange | undefined, head: number): number | undefined => sinks?.floats[head];

function reportHead(report: Report, output: string, got: ArrayLike<number>, { out, errors }: Attended): void {
  for (const [d, expected] of out.entries())
    report(output, {
      got: got[d] as number,
      expected,
      error: (errors[d] as number) + fewRoundings(expected),
    });
}

/** Positions in a split of a tile of one token. */
const splitTokensOf = ({ count }: TileRecord): number => count >>> 16;

/** Tiles of one token, with or without rotation, and with the whole context or its splits. */
export const checkDecodeAttention: Check = (site) => {
  const { variant, step } = site;
  const isSplit = variant['SPLIT'] === true;
  const rotates = variant['ROPE'] === true;
  const writes = rotates && site.param('writes') !== 0;
  // Tokens of one sequence read each other's keys, which this dispatch writes; the next one computes the results.
  if (step.dims.hasConsecutiveTiles && writes) return undefined;
  const [heads, kvHeads] = [site.param('heads'), site.param('kv_heads')];
  const headDim = variant['HEAD_DIM'] as number;
  const rowWords = (heads + 2 * kvHeads) * headDim;
  const hasNorm = rotates && variant['QK_NORM'] === true;
  const hasValueNorm = hasNorm && site.param('v_norm') !== 0;
  const cache = new CachedRows(site, kvHeads, headDim);
  const kind = isSplit ? 'splitTiles' : 'singleTiles';
  const rotary = rotates ? site.param('rotary') : 0;
  const norms = hasNorm
    ? site.before('norm_weight', 0, (writes ? (hasValueNorm ? 3 : 2) : 1) * headDim)
    : undefined;
  const sinks = variant['SINKS'] === true ? site.before('sinks', 0, heads) : undefined;
  const maxSplits = site.param('max_splits');
  const inputs = site.pick(isSplit ? step.dims.splitTiles : step.dims.singleTiles).map((index) => {
    const tile = step.tile(kind, index);
    cache.request(tile.slot, tile.position + 1);
    const splits = isSplit ? Math.floor(tile.position / splitTokensOf(tile)) + 1 : 1;
    return {
      tile,
      splits,
      qkv: site.before('qkv', tile.row * rowWords, rowWords),
      turns: rotary > 0 ? site.before('table', tile.position * rotary, rotary) : undefined,
      heads: site.pick(heads).map((head) => ({
        head,
        outs: Array.from({ length: splits }, (_, split) =>
          isSplit
            ? site.after('out', ((index * heads + head) * maxSplits + split) * (headDim + 2), headDim + 2)
            : site.after('out', tile.row * site.param('out_stride') + head * headDim, headDim),
        ),
      })),
    };
  });
  const isNeox = variant['NEOX'] === true;
  return (report) => {
    for (const { tile, splits, qkv, turns, heads: picked } of inputs) {
      /** A head of q, k or v as attention uses it. */
      const prepared = (index: number, part: 0 | 1 | 2): Float64Array => {
        const raw = Float64Array.from(qkv.floats.subarray(index * headDim, (index + 1) * headDim));
        const isNormed = norms && (part < 2 || hasValueNorm);
        const inverse = isNormed ? inverseRms(sumOfSquares(raw), headDim, site.param('eps')) : 1;
        const normed = isNormed
          ? raw.map((value, e) => value * inverse * (norms.floats[part * headDim + e] as number))
          : raw;
        return part < 2 && turns ? rotate(normed, turns.floats, isNeox) : normed;
      };
      for (const { head, outs } of picked) {
        const kvHead = Math.floor(head / (heads / kvHeads));
        if (writes) {
          for (const [name, index, part] of [
            ['k_cache', heads + kvHead, 1],
            ['v_cache', heads + kvHeads + kvHead, 2],
          ] as const) {
            const got = cache.row(name, tile.slot, tile.position, kvHead);
            for (const [d, expected] of prepared(index, part).entries())
              report(name, { got: got[d] as number, expected, error: f16Rounding(expected) });
          }
        }
        const query = rotates ? prepared(head, 0) : prepared(head, 2);
        const splitTokens = splitTokensOf(tile);
        for (let split = 0; split < splits; split++) {
          const begin = Math.max(windowStart(site, tile.position), isSplit ? split * splitTokens : 0);
          const end = isSplit ? Math.min(tile.position + 1, (split + 1) * splitTokens) : tile.position + 1;
          if (begin >= end) continue;
          const options = { scale: site.param('scale'), sink: sinkOf(sinks, head) };
          const attended = attendRange(cache, query, { tile, kvHead, begin, end }, options);
          const got = (outs[split] as ObservedRange).floats;
          if (!isSplit) {
            reportHead(report, 'out', got, attended);
            continue;
          }
          const [largest, mass] = [got[headDim] as number, got[headDim + 1] as number];
          reportHead(
            report,
            'partial',
            got.subarray(0, headDim).map((value) => value / mass),
            attended,
          );
          report('mass', {
            got: Math.exp(largest + Math.log(mass) - attended.logMass),
            expected: 1,
            error: 2 ** -18 * (1 + Math.abs(largest)),
          });
        }
      }
    }
  };
};

function attendRange(
  cache: CachedRows,
  query: Float64Array,
  { tile, kvHead, begin, end }: { tile: TileRecord; kvHead: number; begin: number; end: number },
  options: { scale: number; sink: number | undefined },
): Attended {
  const positions = Array.from({ length: end - begin }, (_, index) => begin + index);
  return attend(
    query,
    {
      keys: positions.map((position) => cache.row('k_cache', tile.slot, position, kvHead)),
      values: positions.map((position) => cache.row('v_cache', tile.slot, position, kvHead)),
    },
    options,
  );
}

/** Tiles of several tokens, whose keys and values are in the cache; causal or in both directions. */
const checkWideAttention =
  (isBidirectional: boolean): Check =>
  (site) => {
    const { variant } = site;
    const [heads, kvHeads] = [site.param('heads'), site.param('kv_heads')];
    const headDim = variant['HEAD_DIM'] as number;
    const rowWords = (heads + 2 * kvHeads) * headDim;
    const cache = new CachedRows(site, kvHeads, headDim);
    const sinks = variant['SINKS'] === true ? site.before('sinks', 0, heads) : undefined;
    const window = variant['WINDOW'] === true ? site.param('window') : Number.POSITIVE_INFINITY;
    const inputs = site.rows.flatMap((row) => {
      const tile = wideTileOf(site, row);
      if (!tile) return [];
      const length = tile.count >>> 16;
      const position = tile.position + row - tile.row;
      const end = isBidirectional ? Math.min(length, position + window) : position + 1;
      cache.request(tile.slot, end);
      return [
        {
          tile,
          position,
          end,
          heads: site.pick(heads).map((head) => ({
            head,
            query: site.before('qkv', row * rowWords + head * headDim, headDim),
            out: site.after('out', row * site.param('out_stride') + head * headDim, headDim),
          })),
        },
      ];
    });
    return (report) => {
      for (const { tile, position, end, heads: picked } of inputs) {
        const begin = Math.max(0, position + 1 - window);
        for (const { head, query, out } of picked) {
          const kvHead = Math.floor(head / (heads / kvHeads));
          const options = { scale: site.param('scale'), sink: sinkOf(sinks, head) };
          const attended = attendRange(
            cache,
            Float64Array.from(query.floats),
            { tile, kvHead, begin, end },
            options,
          );
          reportHead(report, 'out', out.floats, attended);
        }
      }
    };
  };

export const checkPrefillAttention = checkWideAttention(false);
export const checkEncoderAttention = checkWideAttention(true);

/** The wide tile that a row belongs to. */
function wideTileOf({ step }: Site, row: number): TileRecord | undefined {
  for (let index = 0; index < step.dims.wideTiles; index++) {
    const tile = step.tile('wideTiles', index);
    if (row >= tile.row && row < tile.row + (tile.count & 0xffff)) return tile;
  }
  return undefined;
}

export const checkCombine: Check = (site) => {
  const { step, variant } = site;
  const [heads, headDim] = [site.param('heads'), site.param('head_dim')];
  const maxSplits = site.param('max_splits');
  const words = headDim + 2;
  const window = site.param('window');
  const sinks = variant['SINKS'] === true ? site.before('sinks', 0, heads) : undefined;
  const inputs = site.pick(step.dims.splitTiles).flatMap((index) => {
    const tile = step.tile('splitTiles', index);
    return site.pick(heads).map((head) => ({
      head,
      tile,
      partial: site.before('partial', (index * heads + head) * maxSplits * words, maxSplits * words),
      out: site.after('out', tile.row * site.param('out_stride') + head * headDim, headDim),
    }));
  });
  return (report) => {
    for (const { head, tile, partial, out } of inputs) {
      const splitTokens = splitTokensOf(tile);
      const first = window > 0 ? Math.floor(Math.max(0, tile.position + 1 - window) / splitTokens) : 0;
      const splits = Math.floor(tile.position / splitTokens) + 1;
      const parts = Array.from({ length: splits - first }, (_, n) =>
        partial.floats.subarray((first + n) * words, (first + n + 1) * words),
      );
      const sink = sinkOf(sinks, head);
      const tops = parts.map((part) => part[headDim] as number);
      const largest = Math.max(sink ?? Number.NEGATIVE_INFINITY, ...tops);
      const scales = tops.map((top) => Math.exp(top - largest));
      const mass = parts.reduce(
        (sum, part, n) => sum + (part[headDim + 1] as number) * (scales[n] as number),
        sink === undefined ? 0 : Math.exp(sink - largest),
      );
      for (const [d, got] of out.floats.entries()) {
        const terms = parts.map((part, n) => ((part[d] as number) * (scales[n] as number)) / mass);
        const expected = terms.reduce((sum, one) => sum + one, 0);
        const size = terms.reduce((sum, one) => sum + Math.abs(one), 0);
        report('out', { got, expected, error: 8 * f32Unit * size * (1 + Math.abs(largest) / 8) });
      }
    }
  };
};

/** Rotation of q and k in place, and the write of k and v to the cache. */
export const checkRopeKvWrite: Check = (site) => {
  const { variant, step } = site;
  const [heads, kvHeads] = [site.param('heads'), site.param('kv_heads')];
  const [headDim, rotary] = [site.param('head_dim'), site.param('rotary')];
  const rowWords = (heads + 2 * kvHeads) * headDim;
  const writes = site.param('writes') !== 0;
  const cache = new CachedRows(site, kvHeads, headDim);
  const inputs = site.rows
    .filter((row) => variant['PROMPT'] !== true || !step.token(row).hasOwnTile)
    .map((row) => {
      const token = step.token(row);
      if (writes) cache.request(token.slot, token.position + 1);
      return {
        token,
        qkv: site.before('qkv', row * rowWords, rowWords),
        rotated: site.after('qkv', row * rowWords, heads * headDim),
        turns: rotary > 0 ? site.before('table', token.position * rotary, rotary) : undefined,
        heads: site.pick(heads),
        kvHeads: writes ? site.pick(kvHeads) : [],
      };
    });
  return (report) => {
    for (const { token, qkv, rotated, turns, heads: queries, kvHeads: keys } of inputs) {
      const headAt = (index: number, isRotated: boolean) => {
        const raw = Float64Array.from(qkv.floats.subarray(index * headDim, (index + 1) * headDim));
        return isRotated && turns ? rotate(raw, turns.floats, variant['NEOX'] === true) : raw;
      };
      const unitOf = (index: number) =>
        4 * f32Unit * Math.max(...qkv.floats.subarray(index * headDim, (index + 1) * headDim).map(Math.abs));
      for (const head of queries) {
        for (const [d, expected] of headAt(head, true).entries())
          report('q', { got: rotated.floats[head * headDim + d] as number, expected, error: unitOf(head) });
      }
      for (const head of keys) {
        for (const [name, index, isRotated] of [
          ['k_cache', heads + head, true],
          ['v_cache', heads + kvHeads + head, false],
        ] as const) {
          const got = cache.row(name, token.slot, token.position, head);
          const unit = unitOf(index);
          for (const [d, expected] of headAt(index, isRotated).entries())
            report(name, { got: got[d] as number, expected, error: f16Rounding(expected) + unit });
        }
      }
    }
  };
};
