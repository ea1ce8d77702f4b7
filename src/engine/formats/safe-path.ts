import { ModelFileError } from './model-file.ts';

/**
 * Whether a relative path stays inside its folder: no empty, `.` or `..` segment, no backslash, no control character.
 */
export const isSafePath = (name: string): boolean =>
  name.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !/[\\\p{Cc}]/u.test(part));

/**
 * Rejects a file name that leads out of the model's folder. Indexes and manifests are untrusted and may name anything.
 * @param modelName names the model in the error message
 * @throws ModelFileError `corrupt`
 */
export const assertSafePath = (modelName: string, name: string): void => {
  if (isSafePath(name)) return;
  throw new ModelFileError(
    'corrupt',
    `${modelName}: '${name}' is not the name of a file in the model's folder; the file that lists it is corrupt`,
  );
};
