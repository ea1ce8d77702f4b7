import { z } from 'zod';
import { didYouMean } from '../../words/nearest.ts';
import { ObserveError, type ObserveViolation } from '../errors.ts';
import { invalidQuery, toViolations } from '../query/violations.ts';
import { rowLimits, type ObserveQuery } from '../query/shape.ts';
import {
  errorsByWire,
  firstTokenP95,
  loadByHour,
  measurementCoverage,
  slowestTurns,
  tokensByDayAndAgent,
} from './completions.ts';
import { decisionTimes, pendingByAge, refusedActs, transcriptOf, whoActed } from './control.ts';
import { costByGatewayKey, gatewayProviders } from './gateway.ts';
import { kernelBenches, kernelVerdicts } from './lab.ts';
import type { NamedQuestion } from './question.ts';
import {
  failedRuns,
  failedTasks,
  failingSteps,
  gateWaits,
  toolCalls,
  vanishedSessions,
} from './tasks-and-runs.ts';

export const questions: readonly NamedQuestion[] = [
  slowestTurns,
  firstTokenP95,
  loadByHour,
  tokensByDayAndAgent,
  errorsByWire,
  measurementCoverage,
  failedTasks,
  failedRuns,
  failingSteps,
  toolCalls,
  gateWaits,
  pendingByAge,
  decisionTimes,
  whoActed,
  refusedActs,
  vanishedSessions,
  transcriptOf,
  kernelVerdicts,
  kernelBenches,
  costByGatewayKey,
  gatewayProviders,
];

/** All questions, with their parameters as JSON Schema. */
export const describeQuestions = () =>
  questions.map(({ name, description, parameters }) => {
    const { $schema: _, ...schema } = z.toJSONSchema(parameters, { io: 'input' });
    return { name, description, parameters: schema };
  });

/** Request body of POST /observe/v1/questions/{name}. */
export const questionBody = z
  .strictObject({
    parameters: z.record(z.string(), z.unknown()).optional(),
    limit: z
      .int('expected a whole number')
      .min(1, 'at least 1')
      .max(rowLimits.max, `at most ${rowLimits.max}`)
      .optional(),
    cursor: z.string('expected a string').optional(),
  })
  .meta({ id: 'ObserveQuestion' });

/** Builds the query of a question. @throws ObserveError not_found; invalid, with all violations */
export function buildQuestionQuery(name: string, body: unknown): ObserveQuery {
  const question = questions.find((one) => one.name === name);
  if (!question) throw unknownQuestion(name);
  const parsedBody = questionBody.safeParse(body ?? {});
  const rawBody = (body ?? {}) as { readonly parameters?: unknown };
  const parameters = question.parameters.safeParse(rawBody.parameters ?? {});
  const violations = [
    ...zodViolations(parsedBody, [], questionBody),
    ...(Array.isArray(body) || typeof rawBody !== 'object'
      ? []
      : zodViolations(parameters, ['parameters'], question.parameters)),
  ];
  if (!parsedBody.success || !parameters.success) throw invalidQuery(violations);
  const { limit, cursor } = parsedBody.data;
  return {
    ...question.query(parameters.data),
    ...(limit === undefined ? {} : { limit }),
    ...(cursor === undefined ? {} : { cursor }),
  };
}

function zodViolations(
  parsed: z.ZodSafeParseResult<unknown>,
  at: readonly string[],
  shape: z.ZodObject,
): ObserveViolation[] {
  if (parsed.success) return [];
  const known = Object.keys(shape.shape);
  return parsed.error.issues.flatMap((issue) => {
    const path = [...at, ...issue.path];
    if (issue.code !== 'unrecognized_keys') return toViolations({ ...issue, path });
    return issue.keys.map((key) => {
      const near = didYouMean(key, known, (one) => `'${one}'`) || `: expected ${known.join(', ')}`;
      return { path: [...at, key.slice(0, 80)].join('.'), message: `is not a known member${near}` };
    });
  });
}

function unknownQuestion(name: string): ObserveError {
  const names = questions.map((question) => question.name);
  const near = didYouMean(name, names, (one) => `'${one}'`);
  return new ObserveError(
    'not_found',
    'unknown_question',
    `There is no question '${name.slice(0, 80)}'${near}; the questions are: ${names.join(', ')}.`,
  );
}
