import { ObserveError, type ObserveErrorKind } from '../../observe/errors.ts';
import { HttpError } from '../../http/error.ts';
import type { Route } from '../../http/route.ts';

const statuses: Readonly<Record<ObserveErrorKind, number>> = {
  invalid: 400,
  not_found: 404,
  over_budget: 422,
  unavailable: 503,
};

/** Routes whose refusals by the observe plane become answers. */
export const refusing = (routes: readonly Route[]): Route[] =>
  routes.map((route) => ({
    ...route,
    async handle(request) {
      try {
        return await route.handle(request);
      } catch (error) {
        throw observeProblem(error);
      }
    },
  }));

/** Anything that is no refusal of the plane passes through. */
function observeProblem(error: unknown): unknown {
  if (!(error instanceof ObserveError)) return error;
  const { kind, code, message, violations } = error;
  return new HttpError(statuses[kind], code, message, {
    ...(violations.length > 0 ? { violations } : {}),
    ...(kind === 'unavailable' ? { headers: { 'retry-after': '1' } } : {}),
  });
}
