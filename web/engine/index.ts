export const createChat = 1;
