import { hostError } from '../error-schema.ts';
import { HttpError } from '../../http/error.ts';
import {
  configImported,
  configNames,
  configSaved,
  deleted,
  importConfigRequest,
  isConfigName,
  saveConfigRequest,
  savedConfig,
  validateRequest,
  validationReport,
} from '../../lab/types.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { withHttpErrors } from './http-errors.ts';

const errorResponse = (description: string) => ({ description, content: { 'application/json': hostError } });
const unsafeNameResponse = errorResponse(
  'The name is unsafe: empty, or it contains slashes or dot segments.',
);

/** Routes for configs: saved, signed sets of bindings with their kernels. */
export function configRoutes(resident: Resident) {
  const validateConfig = defineRoute({
    method: 'POST',
    path: '/lab/v1/validate',
    operationId: 'validateLabConfig',
    summary: 'Check a config against the resident model',
    description: 'Checks the signature, safety and the evidence of parity. Nothing runs on the GPU.',
    body: validateRequest,
    responses: { 200: { description: 'The findings.', content: { 'application/json': validationReport } } },
    async handle({ body }) {
      const lab = resident.requireLab();
      return Response.json(await withHttpErrors(() => lab.validate(body)));
    },
  });

  const listConfigs = defineRoute({
    method: 'GET',
    path: '/lab/v1/configs',
    operationId: 'listLabConfigs',
    summary: 'List the names of the saved configs',
    responses: { 200: { description: 'The names.', content: { 'application/json': configNames } } },
    handle: async () => Response.json(await withHttpErrors(() => resident.requireLab().configNames())),
  });

  const saveConfig = defineRoute({
    method: 'POST',
    path: '/lab/v1/configs',
    operationId: 'saveLabConfig',
    summary: 'Save the current bindings',
    description:
      'Includes the kernels, their gate reports and a signature. A config of the same name is replaced.',
    body: saveConfigRequest,
    responses: {
      201: { description: 'The config was saved.', content: { 'application/json': configSaved } },
      400: errorResponse('The body is malformed, or the name is unsafe.'),
      409: errorResponse('Nothing is bound.'),
    },
    async handle({ body }) {
      const name = requireSafeName(body.name);
      await withHttpErrors(() => resident.requireLab().saveConfig(name));
      return Response.json({ name, saved: true }, { status: 201 });
    },
  });

  const getConfig = defineRoute({
    method: 'GET',
    path: '/lab/v1/configs/{name}',
    operationId: 'getLabConfig',
    summary: 'Get a saved config',
    params: { name: 'Name of the saved config.' },
    isCatchAll: true,
    responses: {
      200: { description: 'Canonical JSON (RFC 8785).', content: { 'application/json': savedConfig } },
      400: unsafeNameResponse,
      404: errorResponse('No config has this name.'),
    },
    async handle({ params }) {
      const name = requireSafeName(params['name'] ?? '');
      const text = await withHttpErrors(() => resident.requireLab().config(name));
      return new Response(text, { headers: { 'content-type': 'application/json' } });
    },
  });

  const importConfig = defineRoute({
    method: 'POST',
    path: '/lab/v1/configs/import',
    operationId: 'importLabConfig',
    summary: 'Save a config of another host',
    description:
      'Its signature must be valid. It is bound at a start with `--kernels` only if its key is trusted (`--trust-key`), and every kernel is checked again then.',
    body: importConfigRequest,
    responses: {
      201: {
        description: 'The config was saved; the report says whether it could be bound here.',
        content: { 'application/json': configImported },
      },
      400: errorResponse(
        'The body or the config is malformed, its signature is invalid, or the name is unsafe.',
      ),
      409: errorResponse('There is a config of this name.'),
    },
    async handle({ body }) {
      if (body.name !== undefined) requireSafeName(body.name);
      return Response.json(await withHttpErrors(() => resident.requireLab().importConfig(body)), {
        status: 201,
      });
    },
  });

  const deleteConfig = defineRoute({
    method: 'DELETE',
    path: '/lab/v1/configs/{name}',
    operationId: 'deleteLabConfig',
    summary: 'Delete a saved config',
    params: { name: 'Name of the saved config.' },
    isCatchAll: true,
    responses: {
      200: { description: 'The config is deleted.', content: { 'application/json': deleted } },
      400: unsafeNameResponse,
      404: errorResponse('No config has this name.'),
    },
    async handle({ params }) {
      const name = requireSafeName(params['name'] ?? '');
      await withHttpErrors(() => resident.requireLab().deleteConfig(name));
      return Response.json({ deleted: true });
    },
  });

  return [validateConfig, listConfigs, saveConfig, getConfig, importConfig, deleteConfig];
}

function requireSafeName(name: string): string {
  if (isConfigName(name)) return name;
  const nameRule =
    "1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit, without '..', not ending in '.', and none that Windows reserves (CON, AUX, NUL, COM1 ...)";
  const message = `expected ${nameRule}, got ${JSON.stringify(name.slice(0, 80))}`;
  throw new HttpError(400, 'invalid_name', `name: ${message}.`, { violations: [{ path: 'name', message }] });
}
