/** What the scripted host and the scripted provider answer to the questions of the client libraries. */

export const question = 'What is the capital of Italy?';
export const answer = 'The capital is Rome.';

export const weatherQuestion = 'What is the weather in Rome?';
export const weatherResult = '21 degrees, sunny';
export const weatherAnswer = 'It is 21 degrees in Rome.';
/** Calls the tool for two cities at once. */
export const twoCitiesQuestion = 'Compare the weather in Rome and Oslo.';
export const twoCitiesAnswer = 'Rome is warmer than Oslo.';

export const personQuestion = 'Give the name and age as JSON: Ana is 41 years old.';
/** The same through a tool of this name. */
export const personCallQuestion = 'Call the tool with the name and age: Ana is 41 years old.';
export const personName = 'person';
export const person = { name: 'Ana', age: 41 };

export const handoffQuestion = 'Let the specialist answer.';
export const handoffTool = 'transfer_to_specialist';
export const handoffAnswer = 'The specialist is here.';

/** A second question, which can be answered with the first turn alone. */
export const introduction = 'My name is Ana.';
export const nameQuestion = 'What is my name?';
export const nameAnswer = 'It is Ana.';

/** Its answer takes seconds. */
export const storyQuestion = 'Tell me a long story.';

export const weatherTool = 'get_weather';

interface ScriptedAnswer {
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly arguments: object }[];
}

const weatherIn = (city: string) => ({ name: weatherTool, arguments: { city } });

/**
 * Later turns of a conversation hold the earlier ones, so they come first.
 * @param prompt the rendered prompt, or the body of the request
 */
export function answerTo(prompt: string): ScriptedAnswer {
  const cases: readonly (readonly [part: string, answer: ScriptedAnswer])[] = [
    [`${weatherResult} in Oslo`, { text: twoCitiesAnswer }],
    [weatherResult, { text: weatherAnswer }],
    [twoCitiesQuestion, { calls: [weatherIn('Rome'), weatherIn('Oslo')] }],
    [weatherQuestion, { calls: [weatherIn('Rome')] }],
    ['You are the specialist.', { text: handoffAnswer }],
    [handoffQuestion, { calls: [{ name: handoffTool, arguments: {} }] }],
    [personQuestion, { text: JSON.stringify(person) }],
    [personCallQuestion, { calls: [{ name: personName, arguments: person }] }],
    [nameQuestion, { text: prompt.includes(introduction) ? nameAnswer : 'I do not know.' }],
    [storyQuestion, { text: 'once '.repeat(1000) }],
  ];
  return cases.find(([part]) => prompt.includes(part))?.[1] ?? { text: answer };
}

/** The tokens of a model that writes its calls as ChatML models do. */
export function piecesOf({ text = '', calls = [] }: ScriptedAnswer): readonly string[] {
  const written = calls.map((call) => `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`);
  return [text, ...written].join('\n').match(/[^]{1,5}/g) ?? [];
}
