// Prints a conversation of ten thousand calls, for the scripted model.

const STEPS = 20;
const CALLS = 500;
console.log('[[conversation]]\nwhen = "work a lot"\n');
for (let step = 0; step < STEPS; step += 1) {
  // Each call is another one: an agent that repeats itself is stopped.
  const calls = Array.from({ length: CALLS }, (_, call) => `{ name = "glob", args = { pattern = "absent-${step}-${call}-*" } }`);
  console.log(`[[conversation.step]]\nchunk_delay_ms = 0\ntext = "Step ${step} of ${STEPS}, with **${CALLS}** calls."\ntools = [${calls.join(", ")}]\n`);
}
console.log('[[conversation.step]]\ntext = "All of it is done."\n');
