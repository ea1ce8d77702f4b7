import { ObserveError, type ObserveErrorKind } from '../../observe/errors.ts';
import { HttpError } from '../../http/error.ts';
import type { Route } from '../../http/route.ts';

const statuses: Readonly<Record<ObserveErrorKind, number>> = {
  invalid: 400,
  not_found: 404,
  over_budget: 422,
  unavailable: 503,
};

/** Converts the errors of the observe plane to HTTP errors in the given routes. */
export const withHttpErrors = (routes: readonly Route[]): Route[] =>
  routes.map((route) => ({
    ...route,
    async handle(request) {
      try {
        return await route.handle(request);
      } catch (error) {
        throw toHttpError(error);
      }
    },
  }));

/** Returns any other error unchanged. */
function toHttpError(error: unknown): unknown {
  if (!(error instanceof ObserveError)) return error;
  const { kind, code, message, violations } = error;
  return new HttpError(statuses[kind], code, message, {
    ...(violations.length > 0 ? { violations } : {}),
    ...(kind === 'unavailable' ? { headers: { 'retry-after': '1' } } : {}),
  });
}
