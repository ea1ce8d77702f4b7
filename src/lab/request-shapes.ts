/** What the requests of the lab plane carry. */
import { z } from 'zod';
import { formatNames } from '../../kernels/formats.ts';
import { maxTimedTokens, timedTokens } from './bench/effort.ts';
import { dictionary, list } from '../http/schema/list.ts';
import type { Immutable } from '../util/immutable.ts';
import { isRecord } from '../util/json.ts';
import { didYouMean } from '../words/nearest.ts';
import { expressionGrammar } from './expression.ts';
import { features, kernelNamePattern, readHeader } from './kernel-header.ts';

/** Error message with the expected and the received value. */
const expectedError = (expectation: string) => ({
  error: ({ input }: { readonly input?: unknown }) => `expected ${expectation}, got ${describeValue(input)}`,
});

function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = typeof value === 'number' ? String(value) : JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

const integer = (min: number, max: number) => {
  const errorOptions = expectedError(`a whole number from ${min} to ${max}`);
  return z.int(errorOptions).min(min, errorOptions).max(max, errorOptions);
};
const seed = integer(0, 2 ** 32 - 1);

/** Text of bounded length. A lone surrogate is refused, because it has no UTF-8 form to digest. */
const text = (max: number, expectation = `a text of 1 to ${max} characters`) => {
  const errorOptions = expectedError(expectation);
  return z
    .string(errorOptions)
    .min(1, errorOptions)
    .max(max, errorOptions)
    .refine((value) => value.isWellFormed(), { error: 'expected Unicode text, got half a surrogate pair' });
};

const sourceLimit = 256 * 1024;
const identifier = /^(?!_$|__)[_\p{XID_Start}]\p{XID_Continue}{0,127}$/u;
const maxCombinations = 1024;

const override = {
  key: /^(?:(?!_$|__)[_A-Za-z]\w{0,127}|\d{1,5})$/,
  keyError: 'expected the name of an override',
};
const finite = z.number(expectedError('a finite number'));
const expression = text(500, 'an expression of 1 to 500 characters');

const oneOf = <const Values extends readonly [string, ...string[]]>(values: Values) =>
  z.enum(values, expectedError(`one of ${values.join(', ')}`));

const readsDirectives = 'May be left out where a directive of the source says it.';

/** @param ops returns the ops that a kernel may be registered for; called for each body */
export const kernelRegistration = (ops: () => readonly string[]) =>
  z.preprocess(withDirectives, registrationObject(ops)).meta({ id: 'KernelRegistration' });

/** Requires a member that only a directive may replace; checked beside all others. */
const isGiven = (
  member: (typeof neededMembers)[number],
  expectation: string,
): Parameters<ReturnType<typeof z.looseObject>['refine']> =>
  [
    (registration: Readonly<Record<string, unknown>>) => registration[member] !== undefined,
    {
      path: [member as PropertyKey],
      error: `expected ${expectation}, got nothing`,
      when: ({ value }: { readonly value: unknown }) => isRecord(value),
    },
  ] satisfies [unknown, object];

const kernelName = z
  .string(expectedError('a name'))
  .regex(kernelNamePattern, expectedError(`a name that matches ${kernelNamePattern.source}`));

const registrationObject = (ops: () => readonly string[]) =>
  z
    .object(
      {
        name: kernelName
          .optional()
          .describe(`A later kernel of the same name replaces it. ${readsDirectives}`),
        op: z
          .string(expectedError('the name of an op'))
          .superRefine((op, context) => {
            const known = ops();
            if (known.includes(op)) return;
            const suggestion = didYouMean(op, known, describeValue);
            context.addIssue(`expected one of ${known.join(', ')}, got ${describeValue(op)}${suggestion}`);
          })
          .optional()
          .describe(`An op of GET /lab/v1/ops. ${readsDirectives}`),
        source: text(sourceLimit, 'WGSL, not empty')
          .refine((source) => new TextEncoder().encode(source).length <= sourceLimit, {
            error: `expected at most ${sourceLimit} bytes of WGSL`,
          })
          .describe(
            'WGSL. If `name`, `op` or `dispatch` is left out, directives at its top are read: `//! op: OP`, `//! name: NAME`, ' +
              '`//! dispatch: X, Y, Z`, `//! entry: NAME`, `//! override NAME = N`, `//! tune NAME = N, N`, `//! requires: FEATURE`, `//! dtypes: FORMAT`.',
          ),
        entry_point: z
          .string(expectedError('a WGSL identifier'))
          .regex(identifier, expectedError('a WGSL identifier'))
          .optional()
          .describe('Default `main`.'),
        dispatch: z
          .object(
            { x: expression, y: expression.optional(), z: expression.optional() },
            expectedError('an object'),
          )
          .optional()
          .describe(
            "Workgroup counts, as expressions over the op's dimensions and the overrides; absent dimensions are 1. " +
              `${expressionGrammar} ${readsDirectives}`,
          ),
        overrides: dictionary(
          { error: 'expected an object of override names to numbers', ...override },
          finite,
        )
          .optional()
          .describe('Values of the overrides of the module.'),
        tunables: dictionary(
          { error: 'expected an object of override names to lists of numbers', ...override },
          list(finite, {
            error: 'expected a list of numbers',
            empty: 'expected at least one number',
            max: { count: 16, error: 'expected at most 16 numbers' },
          }),
        )
          .refine(
            (tunables) =>
              Object.values(tunables).reduce((count, { length }) => count * length, 1) <= maxCombinations,
            { error: `expected at most ${maxCombinations} combinations of values` },
          )
          .optional()
          .describe('Overrides with the values to try; the fastest combination of each shape is kept.'),
        requires: list(oneOf(features), {
          error: `expected a list of ${features.join(', ')}`,
          max: { count: 16, error: 'expected at most 16 features' },
        })
          .optional()
          .describe('Required adapter features.'),
        dtypes: list(oneOf(formatNames), {
          error: `expected a list of ${formatNames.join(', ')}`,
          empty: 'expected at least one format',
          max: { count: 16, error: 'expected at most 16 formats' },
        })
          .optional()
          .describe('Weight formats that the kernel reads. Default: those of the model.'),
      },
      expectedError('an object'),
    )
    .refine(...isGiven('name', 'a name'))
    .refine(...isGiven('op', 'the name of an op'))
    .refine(...isGiven('dispatch', 'an object'))
    .transform((registration) => registration as typeof registration & Needed<typeof registration>);

/** Members that the body has, or a directive of its source. */
const neededMembers = ['name', 'op', 'dispatch'] as const;
type Needed<Body> = {
  [Member in (typeof neededMembers)[number] & keyof Body]-?: NonNullable<Body[Member]>;
};

/** Adds what the directives of the source say where the body leaves out what it must have. Its members win. */
function withDirectives(body: unknown, context: z.core.$RefinementCtx): unknown {
  if (!isRecord(body) || typeof body['source'] !== 'string') return body;
  if (neededMembers.every((member) => body[member] !== undefined)) return body;
  const { op, name, entry_point, dispatch, overrides, tunables, requires, dtypes, places, faults } =
    readHeader(body['source'].split('\n'));
  if (places.size === 0 && faults.length === 0) return body;
  for (const { line, message } of faults)
    context.addIssue({
      code: 'custom',
      path: ['source'],
      message: `line ${line}: ${message}`,
      input: undefined,
    });
  const filled = <Value>(member: string, value: Value | undefined) =>
    value === undefined ? {} : { [member]: value };
  const words = (values: readonly unknown[]) => (values.length > 0 ? values : undefined);
  const record = (value: object) => (Object.keys(value).length > 0 ? value : undefined);
  return {
    ...filled('op', op),
    ...filled('name', name),
    ...filled('entry_point', entry_point),
    ...filled('dispatch', dispatch),
    ...filled('overrides', record(overrides)),
    ...filled('tunables', record(tunables)),
    ...filled('requires', words(requires)),
    ...filled('dtypes', words(dtypes)),
    ...body,
  };
}

type Registration = Immutable<z.output<ReturnType<typeof kernelRegistration>>>;
/** A kernel to check and register. A config of another host may have formats that this one does not know. */
export type KernelRegistration = Omit<Registration, 'dtypes'> & {
  readonly dtypes?: readonly string[] | undefined;
};

const globPattern = text(200);

export const bindRequest = z
  .object(
    {
      kernel: text(200, 'the name of a registered kernel'),
      components: list(globPattern, {
        error: 'expected a list of globs',
        empty: 'expected at least one glob',
        max: { count: 4096, error: 'expected at most 4096 globs' },
      })
        .optional()
        .describe('Globs over ids of components and spans: `*` within a segment, `**` across segments.'),
      span: globPattern.optional().describe('Id of a span, or a glob over span ids.'),
    },
    expectedError('an object'),
  )
  .refine(({ components, span }) => components !== undefined || span !== undefined, {
    error: 'expected components, span or both, got neither',
  })
  .meta({ id: 'BindRequest' });
export type BindRequest = Immutable<z.output<typeof bindRequest>>;

const profilePhase = oneOf(['decode', 'prefill']);
export type ProfilePhase = z.output<typeof profilePhase>;

export const profileRequest = z
  .object(
    {
      kernel: text(200, 'the name of a registered kernel'),
      lanes: z
        .literal([4, 8, 16, 32, 64], expectedError('4, 8, 16, 32 or 64'))
        .optional()
        .describe('Lanes of a subgroup. Default: those of this GPU, and 32 on a software adapter.'),
      phase: profilePhase
        .optional()
        .describe(
          'One token, or the longest prompt among the inputs. Default: decode, if the kernel runs there.',
        ),
    },
    expectedError('an object'),
  )
  .meta({ id: 'ProfileRequest' });
export type ProfileRequest = Immutable<z.output<typeof profileRequest>>;

export const parityMode = z
  .object(
    {
      mode: oneOf(['strict', 'standard', 'off']).describe(
        '`off`: kernels are compiled but not compared, and register as unverified.',
      ),
      tolerance_scale: z
        .number(expectedError('a number from 0.01 to 10'))
        .min(0.01, expectedError('a number from 0.01 to 10'))
        .max(10, expectedError('a number from 0.01 to 10'))
        .optional()
        .describe('Factor for the tolerances.'),
      seed: seed
        .optional()
        .describe('Makes the inputs of the gate reproducible. Default: a new seed each time.'),
    },
    expectedError('an object'),
  )
  .meta({ id: 'ParityMode' });
export type ParityMode = Immutable<z.output<typeof parityMode>>;

export const validateRequest = z
  .object(
    {
      path: text(4096, 'a path')
        .optional()
        .describe('Path of a file on the host; relative paths start at the directory of the saved configs.'),
      envelope: z.unknown().optional().describe('The config as JSON.'),
    },
    expectedError('an object'),
  )
  .refine(({ path, envelope }) => (path === undefined) !== (envelope === undefined), {
    error: 'expected either path or envelope',
  })
  .meta({ id: 'ValidateRequest' });
export type ValidateRequest = Immutable<z.output<typeof validateRequest>>;

/** @param context returns the context length of the resident model; called for each body */
export const benchRequest = (context: () => number) => {
  const max = 16_777_216;
  const contextBoundInteger = integer(1, max).superRefine((count, check) => {
    if (count > context())
      check.addIssue(`expected at most the context of ${context()} tokens, got ${count}`);
  });
  return z
    .object(
      {
        prompt_tokens: contextBoundInteger
          .optional()
          .describe('Length of the prompts whose prefill is measured.'),
        new_tokens: contextBoundInteger.optional().describe('Tokens to decode per round.'),
        rounds: integer(1, 1000).optional(),
        contexts: list(contextBoundInteger, {
          error: 'expected a list of positions',
          empty: 'expected at least one position',
          max: { count: 16, error: 'expected at most 16 positions' },
        })
          .optional()
          .describe('Positions at which decode is measured.'),
        mode: oneOf(['quick', 'full']).optional(),
        kernels: list(kernelName, {
          error: 'expected a list of kernel names',
          empty: 'expected at least one kernel name',
          max: { count: 64, error: 'expected at most 64 kernel names' },
        })
          .optional()
          .describe(
            'Bound kernels to measure alone: the others that are bound run in both arms. Default: all that are bound, against the built-in kernels.',
          ),
        effect: z
          .number(expectedError('a number from 0.005 to 1'))
          .min(0.005, expectedError('a number from 0.005 to 1'))
          .max(1, expectedError('a number from 0.005 to 1'))
          .optional()
          .describe('Smallest difference to find, relative. Default: 0.1, and 0.03 in full mode.'),
        seed: seed.optional(),
        stream: z
          .boolean(expectedError('true or false'))
          .optional()
          .describe('Send lines of JSON: every round as it ends, and the result. Default false.'),
      },
      expectedError('an object'),
    )
    .superRefine((request, check) => {
      const tokens = timedTokens(request, context());
      if (tokens > maxTimedTokens)
        check.addIssue({
          code: 'custom',
          path: ['rounds'],
          message: `expected rounds x 3 x (prompt_tokens + contexts x new_tokens) to be at most ${maxTimedTokens} tokens, got ${tokens}`,
        });
    })
    .meta({ id: 'BenchRequest' });
};
export type BenchRequest = Immutable<Omit<z.output<ReturnType<typeof benchRequest>>, 'stream'>>;

export const importConfigRequest = z
  .object(
    {
      envelope: z
        .custom<unknown>((value) => isRecord(value), expectedError('a config as JSON'))
        .describe('The config as JSON, as GET /lab/v1/configs/{name} returns it.'),
      name: z.string(expectedError('a name')).optional().describe('Default: the name in the config.'),
      replace: z
        .boolean(expectedError('true or false'))
        .optional()
        .describe('Replace a saved config of the same name. Default false.'),
    },
    expectedError('an object'),
  )
  .meta({ id: 'ImportConfigRequest' });
export type ImportConfigRequest = Immutable<z.output<typeof importConfigRequest>>;

export const saveConfigRequest = z
  .object({ name: z.string(expectedError('a name')) }, expectedError('an object'))
  .meta({ id: 'SaveConfigRequest' });
