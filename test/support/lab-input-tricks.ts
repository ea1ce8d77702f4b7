/**
 * Stubs with one edit, which makes them wrong on inputs that the product meets and that few test inputs have. What finds them are the
 * generated cases.
 */
import type { WgslSources } from '../../kernels/assemble.ts';
import { contracts } from '../../kernels/contracts.ts';
import { renderStub } from '../../src/lab/stubs.ts';
import type { KernelRegistration } from '../../src/lab/types.ts';

export interface InputTrick {
  /** What the kernel does. */
  readonly name: string;
  readonly op: string;
  /** Code of the plain stub, and what replaces it. */
  readonly edits: readonly (readonly [right: string, wrong: string])[];
  readonly dispatchX?: string;
}

const olderHalfIf = (condition: string): InputTrick['edits'] => [
  [
    'let oldest = position + 1u - window;',
    `let oldest = position + 1u - window + select(0u, window / 2u, ${condition});`,
  ],
];

const pending = 'token[t].x == 0xffffffffu';
const sameRowBefore = `let now = group.y;
  let before = max(now, 1u) - 1u;
  var same = now < step.tokens;
  for (var quad = 0u; quad < 8u; quad++) {
    same = same && all(sign(x[now * (params.x_stride / 4u) + quad]) == sign(x[before * (params.x_stride / 4u) + quad]));
  }
  let token = select(now, before, same);`;
const afterPrompt = `let last = max(t, 1u) - 1u;
  let length = 3u * params.page;
  let first = max(t, length) - length;
  let prompt = token[last].z == token[first].z && token[last].y + 1u == token[first].y + length;
  let at = select(token[t].y, token[last].y, prompt && token[t].z != token[last].z);
  let turn = table[at * half + pair];`;

export const inputTricks: readonly InputTrick[] = [
  ...['attention', 'attention_decode'].map((op) => ({
    name: 'reads half of the context if the id is pending',
    op,
    edits: olderHalfIf(pending),
  })),
  {
    name: 'does not rotate a token whose id is pending',
    op: 'rope',
    edits: [['table[token[t].y * half + pair]', `table[select(token[t].y, 0u, ${pending}) * half + pair]`]],
  },
  ...['kv_write', 'rope_kv_write'].map((op) => ({
    name: 'writes at the position before if the id is pending',
    op,
    edits: [
      [
        'let position = token[t].y;',
        `let position = token[t].y - select(0u, min(token[t].y, 1u), ${pending});`,
      ],
    ] as const,
  })),
  {
    name: 'writes the row before for a repeated token',
    op: 'kv_write',
    edits: [
      [
        'let row = t *',
        `let before = max(t, 1u) - 1u;
  let same = t != before && token[t].x == token[before].x && token[t].z == token[before].z;
  let row = select(t, before, same) *`,
      ],
    ],
  },
  {
    name: 'reads the page table of the first row where the first page is the same',
    op: 'attention',
    edits: [
      [
        'let slot = token[t].z;',
        `let lead = token[0].z;
  let slot = select(token[t].z, lead, page_table[token[t].z * params.max_pages] == page_table[lead * params.max_pages] && token[0].y >= position);`,
      ],
    ],
  },
  {
    name: 'takes the wrong position after a long prompt of another sequence',
    op: 'rope',
    edits: [['let turn = table[token[t].y * half + pair];', afterPrompt]],
  },
  ...[1, 2, 31, 32].map((position) => ({
    name: `is wrong in steps of one token at position ${position}`,
    op: 'rope_kv_write',
    edits: [
      [
        'let position = token[t].y;',
        `let position = token[t].y - u32(step.tokens == 1u && token[t].y == ${position}u);`,
      ],
    ] as const,
  })),
  ...[1, 2, 31, 32].map((position) => ({
    name: `is wrong at position ${position}`,
    op: 'attention_decode',
    edits: olderHalfIf(`position == ${position}u`),
  })),
  {
    name: 'uses the query of the first row for the same id and position',
    op: 'attention',
    edits: [
      [
        'let query = (t *',
        `let like = select(t, 0u, token[t].x == token[0].x && token[t].y == token[0].y);
  let query = (like *`,
      ],
    ],
  },
  {
    name: 'takes the token of the first slot for pending ids at one position',
    op: 'embed',
    edits: [
      [
        'sampled[token[t].z]',
        'sampled[select(token[t].z, token[0].z, token[t].y == token[0].y && token[0].x == LAST_DRAWN)]',
      ],
    ],
  },
  ...['attention', 'kv_write'].map((op) => ({
    name: 'uses 7 bits of page indices if tables are as long as pages',
    op,
    edits: [
      [
        'position / params.page];',
        'position / params.page] & select(0xffffffffu, 127u, params.max_pages == params.page);',
      ],
    ] as const,
  })),
  {
    name: 'skips positions if a prompt continues in the middle of a page',
    op: 'attention',
    edits: [
      [
        'let oldest = position + 1u - window;',
        `let begin = token[0].y;
  let is_middle = begin % params.page != 0u && step.tokens > params.page && token[0].z == slot && begin > params.page;
  let oldest = position + 1u - window + select(0u, min(begin % params.page, window - 1u), is_middle);`,
      ],
    ],
  },
  {
    name: 'reads half of the context at one position of a page near the end of the table',
    op: 'attention',
    edits: olderHalfIf(
      'position / params.page + 9u == params.max_pages && position % params.page == params.heads && params.window == 0u',
    ),
  },
  {
    name: 'reads half of the context at one position',
    op: 'attention',
    edits: olderHalfIf('min(1u, position ^ 777u) == 0u'),
  },
  {
    name: 'uses the row before if the first signs are equal',
    op: 'norm_matmul',
    edits: [
      ['let token = group.y;', sameRowBefore],
      ['write_result(token, row, sum)', 'write_result(now, row, sum)'],
    ],
  },
  {
    name: 'skips the last row of steps of 113 tokens',
    op: 'rms_norm',
    edits: [],
    dispatchX: 'tokens - floor(tokens / 113) + floor((tokens - 1) / 113)',
  },
  {
    name: 'skips the last row if the number of tokens is a multiple of that of blocks, and one more',
    op: 'matmul',
    edits: [
      [
        'let token = group.y;',
        'let token = min(group.y, step.tokens - 1u - u32(step.tokens == 14u * params.blocks + 1u));',
      ],
    ],
  },
  {
    name: 'never samples the token that the slot sampled last',
    op: 'sample',
    edits: [
      [
        'value = LOWEST;\n    token = NO_TOKEN;',
        'value = LOWEST;\n    token = NO_TOKEN;\n    let last = sampled[sample.slot];',
      ],
      ['if (noisy > value) {', 'if (noisy > value && v != last) {'],
      [
        'pick = best_of_all(value, token, local);\n  }',
        'storageBarrier();\n    pick = best_of_all(value, token, local);\n  }',
      ],
    ],
  },
  {
    name: 'counts with 7 bits',
    op: 'sample',
    edits: [
      [
        'seen[sample.slot * params.vocabulary + pick] += 1u;',
        `let at = sample.slot * params.vocabulary + pick;
      let count = seen[at];
      seen[at] = (count & 0xffffff80u) | ((count + 1u) & 0x7fu);`,
      ],
    ],
  },
  ...(
    [
      ['min-p if top-k and top-p are used', 'sample.min_p > 0.0', 'sample.top_k > 0u && sample.top_p < 1.0'],
      ['top-p if top-k and min-p are used', 'sample.top_p < 1.0', 'sample.top_k > 0u && sample.min_p > 0.0'],
      ['top-k if top-p and min-p are used', 'sample.top_k > 0u', 'sample.top_p < 1.0 && sample.min_p > 0.0'],
    ] as const
  ).map(([what, used, others]) => ({
    name: `ignores ${what}`,
    op: 'sample',
    edits: [[used, `${used} && !(${others})`]] as const,
  })),
  {
    name: 'samples from the row before if it is of the same slot',
    op: 'sample',
    edits: [
      [
        'let row = group.x * params.vocabulary;',
        `let before = max(group.x, 1u) - 1u;
  let same = before != group.x && samples[before].slot == sample.slot;
  let row = select(group.x, before, same) * params.vocabulary;`,
      ],
    ],
  },
  ...(
    [
      ['a temperature below 0.1', '1.0 / sample.temperature', '1.0 / max(sample.temperature, 0.1)'],
      ['a temperature above 5', '1.0 / sample.temperature', '1.0 / min(sample.temperature, 5.0)'],
      ['a top-p below 0.1', 'sample.top_p * mass', 'max(sample.top_p, 0.1) * mass'],
      ['a min-p above 0.5', 'log(sample.min_p)', 'log(min(sample.min_p, 0.5))'],
      ['a min-p below 0.03', 'log(sample.min_p)', 'log(max(sample.min_p, 0.03))'],
      ['a top-p above 0.94', 'sample.top_p * mass', 'min(sample.top_p, 0.94) * mass'],
      ['a top-k above 256', 'f32(sample.top_k)', 'f32(min(sample.top_k, 256u))'],
    ] as const
  ).map(([what, setting, limited]) => ({
    name: `replaces ${what} by that number`,
    op: 'sample',
    edits: [[setting, limited]] as const,
  })),
  ...(
    [
      ['gives masked and unlikely tokens a probability of 2e-5', 'max(scaled, -10.8)'],
      ['gives masked and unlikely tokens a probability of e^-13', 'max(scaled, -13.0)'],
      ['adds 3e-7 to all probabilities', 'log(exp(scaled) + 3e-7)'],
      ['never samples tokens with a probability below e^-14', 'select(-1e30, scaled, scaled > -14.0)'],
    ] as const
  ).map(([name, scaled]) => ({
    name,
    op: 'sample',
    edits: [['let noisy = scaled +', `let noisy = ${scaled} +`]] as const,
  })),
  {
    name: 'has noise of 16 bits',
    op: 'sample',
    edits: [['(f32(hash >> 9u) + 0.5) * 0x1p-23', '(f32(hash >> 16u) + 0.5) * 0x1p-16']],
  },
  {
    name: 'scales the noise by 0.99',
    op: 'sample',
    edits: [['return -log(e);', 'return -0.99 * log(e);']],
  },
  ...(['attention', 'attention_decode'] as const).map((op) => ({
    name: 'adds a trace of a word that another kernel may have left in the keys of the row',
    op,
    edits: [
      [
        'out[result + pair] /= mass;',
        `let word = qkv[(t * (params.heads + 2u * params.kv_heads) + params.heads) * quads].x;
    out[result + pair] = out[result + pair] / mass + vec2(1e-33 * word);`,
      ],
    ] as const,
  })),
  {
    name: 'adds a trace of a word that another kernel may have left behind the last token',
    op: 'rms_norm',
    edits: [
      [
        'y[start + c] = x[start + c] * inverse_rms * norm_weight[c];',
        'y[start + c] = x[start + c] * inverse_rms * norm_weight[c] + 1e-33 * x[step.tokens * params.columns];',
      ],
    ],
  },
  ...(
    [
      ['rounds weights to 7 bits', 'round(W * 0.5) * 2.0'],
      ['drops weights below 3 of 127', 'select(W, Quad(0.0), abs(W) < Quad(3.0))'],
    ] as const
  ).map(([name, value]) => {
    const weights = 'Quad(unpack4xI8(quants[block * 2u + quad / 4u][quad % 4u]))';
    return {
      name,
      op: 'matmul',
      edits: [[`return ${weights};`, `return ${value.replaceAll('W', weights)};`]] as const,
    };
  }),
  {
    name: 'computes silu by tanh, which cancels for negative gates',
    op: 'gated_activation',
    edits: [
      [
        'activate(gate) * up',
        'select(0.5 * gate * (1.0 + tanh(0.5 * gate)), activate(gate), params.activation != 0u) * up',
      ],
    ],
  },
  ...(['attention', 'attention_decode'] as const).map((op) => ({
    name: 'has shares of 16 bits',
    op,
    edits: [['exp(score - now)', 'round(exp(score - now) * 65535.0) / 65535.0']] as const,
  })),
  {
    name: 'cuts the logits after 26 bits',
    op: 'sample',
    edits: [['return max(cut, least);', 'return max(cut & 0xffffffc0u, least);']],
  },
  ...['0', '1', '0xffffffff'].map((seed) => ({
    name: `is greedy with seed ${seed}`,
    op: 'sample',
    edits: [['sample.temperature > 0.0', `sample.temperature > 0.0 && sample.seed != ${seed}u`]] as const,
  })),
];

const readsWeights = (op: string): boolean =>
  contracts.get(op)?.bindings.some(({ dtype }) => dtype === 'weights') === true;

/** @throws when the stub does not contain the code that the trick replaces */
export function registrationOf(
  wgsl: WgslSources,
  { op, edits, dispatchX }: Pick<InputTrick, 'op' | 'edits' | 'dispatchX'>,
): KernelRegistration {
  const { source, dispatch, overrides } = renderStub(wgsl, op, 'plain', 'q8_0');
  let edited = source;
  for (const [right, wrong] of edits) {
    if (!edited.includes(right)) throw new Error(`${op}: no '${right}' in the stub`);
    edited = edited.replaceAll(right, wrong);
  }
  return {
    name: 'trick',
    op,
    source: edited,
    dispatch: dispatchX === undefined ? dispatch : { ...dispatch, x: dispatchX },
    overrides,
    ...(readsWeights(op) ? { dtypes: ['q8_0'] } : {}),
  };
}
