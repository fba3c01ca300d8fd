// A test in C: the commit of a consumer gets NOT_COORDINATOR twice, and is repeated; after a week it has expired.
#include <curl/curl.h>
#include <err.h>
#include <librdkafka/rdkafka.h>

static void post(const char *broker, const char *path) {
    char url[256];
    snprintf(url, sizeof url, "%s/%s", broker, path);
    CURL *request = curl_easy_init();
    curl_easy_setopt(request, CURLOPT_URL, url);
    curl_easy_setopt(request, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(request, CURLOPT_FAILONERROR, 1L);
    if (curl_easy_perform(request)) errx(1, "%s: refused", url);
    curl_easy_cleanup(request);
}

int main(int count, char **of) {
    if (count != 3) errx(2, "the URL of a broker with a manual clock and a topic orders, and its address");
    post(of[1], "faults/error?api=OffsetCommit&error=NOT_COORDINATOR&n=2");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", of[2], NULL, 0);
    rd_kafka_conf_set(conf, "group.id", "billing", NULL, 0);
    rd_kafka_t *consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, NULL, 0);
    rd_kafka_topic_partition_t seven = {.topic = "orders", .offset = 7};
    rd_kafka_topic_partition_list_t offsets = {.cnt = 1, .size = 1, .elems = &seven};
    if (rd_kafka_commit(consumer, &offsets, 0)) errx(1, "the commit is refused");
    rd_kafka_destroy(consumer);
    post(of[1], "faults/1/wait?hits=2&timeout=0");
    post(of[1], "assert_committed?group=billing&expected=orders:0:7");
    post(of[1], "clock/advance?days=8");
    post(of[1], "assert_committed?group=billing&expected=orders:0:null");
}
