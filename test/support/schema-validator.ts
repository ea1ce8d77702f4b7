import { createRequire } from 'node:module';
import type { Ajv as AjvClass } from 'ajv';

// Both packages are CommonJS whose default export their types and Node see differently.
const require = createRequire(import.meta.url);
const { Ajv } = require('ajv') as { Ajv: typeof AjvClass };
const { Ajv2020 } = require('ajv/dist/2020.js') as { Ajv2020: typeof AjvClass };
const { default: addFormats } = require('ajv-formats') as { default: (ajv: AjvClass) => void };

/** Whether a value fits a schema, by ajv; undefined where ajv cannot read the schema. */
export function validatorOf(
  schema: unknown,
  draft: 'draft7' | 'draft2020-12',
): ((value: unknown) => boolean) | undefined {
  const ajv = new (draft === 'draft7' ? Ajv : Ajv2020)({ strict: false, logger: false, ownProperties: true });
  addFormats(ajv);
  try {
    return ajv.compile(schema as object);
  } catch {
    return undefined;
  }
}
