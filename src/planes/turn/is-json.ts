/** Whether a text is one JSON value, whole: a call's arguments that were cut off are none. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
