import { LabError, type LabErrorCode } from '../../lab/types.ts';
import { HttpError } from '../../http/error.ts';
import { toHttpError } from '../resident.ts';

const statuses: Readonly<Record<LabErrorCode, number>> = {
  unknown_op: 404,
  unknown_kernel: 404,
  kernel_bound: 409,
  unknown_config: 404,
  invalid_target: 400,
  invalid_name: 400,
  unknown_component: 400,
  incompatible_component: 409,
  not_bindable: 409,
  nothing_bound: 409,
  invalid_config: 400,
  config_exists: 409,
  not_profiled: 409,
  unknown_bench: 404,
  bench_cancelled: 409,
  lab_busy: 503,
  lab_failed: 500,
};

/** Seconds before a retry while the lab is busy. */
const retryAfter = '10';

/** Runs an action of the lab and converts its errors to HTTP errors. */
export async function withHttpErrors<Value>(action: () => Value | Promise<Value>): Promise<Value> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof LabError) {
      const headers = error.code === 'lab_busy' ? { 'retry-after': retryAfter } : {};
      throw new HttpError(statuses[error.code], error.code, error.message, { headers });
    }
    throw toHttpError(error);
  }
}
