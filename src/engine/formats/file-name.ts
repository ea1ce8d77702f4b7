import { ModelFileError } from './model-file.ts';

/**
 * Refuses a name that leads out of the folder of a model, or to nothing: an index or a manifest may name anything.
 * @param place the model's files, for the message
 */
export const checkFileName = (place: string, name: string): void => {
  const parts = name.split('/');
  if (parts.every((part) => part !== '' && part !== '.' && part !== '..' && !/[\\\0]/.test(part))) return;
  throw new ModelFileError(
    'corrupt',
    `${place}: '${name}' is no name of a file in the model's folder; the file that names it is corrupt`,
  );
};
