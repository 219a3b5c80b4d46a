// Reads crontabs with the real Graphile Worker: node crontab.js VERSION
//
// Each line on stdin is {"text": …, "minutes": [milliseconds since 1970, …]}; the answer is one line on stdout: the
// entries, and for each of them a 1 for every minute at which it fires, or the message of the error.
"use strict";

const readline = require("node:readline");
const { parseCrontab } = require(`graphile-worker-${process.argv[2]}`);

const digest = (time) => {
  const date = new Date(time);
  return {
    min: date.getUTCMinutes(),
    hour: date.getUTCHours(),
    date: date.getUTCDate(),
    month: date.getUTCMonth() + 1,
    dow: date.getUTCDay(),
  };
};

const answer = ({ text, minutes }) => {
  let items;
  try {
    items = parseCrontab(text);
  } catch (error) {
    return { error: error.message };
  }
  const digests = minutes.map(digest);
  return {
    entries: items.map(({ task, identifier, options, payload, match }) => {
      const fires = digests.map((each) => (match(each) ? "1" : "0")).join("");
      return { task, identifier, options, payload, timer: match.parsedCronMatch, fires };
    }),
  };
};

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
});
